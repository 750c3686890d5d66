"""A writer without a thread, for the test kit and the simulator."""

from __future__ import annotations

from typing import Any

from yieldstar_cli.storage.contract import Reply
from yieldstar_cli.storage.sqlite.batch import Post, Request
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


class InlineWriter:
    """`contract.Writer` that runs each request at once, in a transaction of its own.

    The reply comes through `post`.
    """

    def __init__(self, storage: SqliteStorage, post: Post) -> None:
        self._storage = storage
        self._post = post

    def submit(self, request: Request, reply: Reply) -> None:
        """See `contract.Writer.submit`."""
        value: Any = None
        error: BaseException | None = None
        try:
            with self._storage.atomic():
                value = request(self._storage)
        except Exception as caught:
            value, error = None, caught
        self._post(lambda: reply(value, error))

    def close(self) -> None:
        """Nothing waits."""
