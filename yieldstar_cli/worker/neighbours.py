"""Rings the other workers' bells when something may be due for them by what was committed here."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from yieldstar_cli.doorbell import ring
from yieldstar_cli.errors import StorageError

if TYPE_CHECKING:
    from yieldstar_cli.storage.contract import Storage
    from yieldstar_cli.worker.ports import Loop

#: For how long the list of the others is good, in milliseconds.
GOOD_MS = 1_000


class Neighbours:
    """The workers that share the file; whoever is not rung sees the commit at its next look."""

    def __init__(self, worker: int, storage: Storage, path: str, loop: Loop) -> None:
        self._worker = worker
        self._path = os.path.realpath(path)
        self._storage = storage
        self._loop = loop
        self._slots: list[int] = []
        self._asked_at = 0
        self._posted = False

    def rouse(self) -> None:
        """Ring them, once for all that one commit brought; never an error (spec K3)."""
        if not self._posted:
            self._posted = True
            self._loop.post(self._ring)

    def _ring(self) -> None:
        self._posted = False
        now = self._loop.now_ms()
        if not self._asked_at <= now < self._asked_at + GOOD_MS:
            with suppress(StorageError):
                living = self._storage.workers.all(living=True)
                self._slots = [row.slot for row in living if row.number != self._worker]
                self._asked_at = now
        if self._slots:
            ring(self._path, self._slots)
