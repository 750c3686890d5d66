"""One batch of requests in one transaction: who fails alone, who takes all with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from yieldstar_cli.errors import StorageError
from yieldstar_cli.storage.contract import Reply, Storage
from yieldstar_cli.storage.sqlite.database import strikes_all
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

Post = Callable[[Callable[[], None]], None]
Request = Callable[[Storage], Any]


class Asked(NamedTuple):
    """A request, and who waits for its answer."""

    request: Request
    reply: Reply


class Answer(NamedTuple):
    """What a request came to."""

    reply: Reply
    value: Any
    error: BaseException | None


class Undo(Exception):
    """A request failed after it had changed something: run the batch again in parts."""


def deliver(answers: Sequence[Answer]) -> None:
    """Call every reply; one that raises does not keep the others from theirs."""
    first: BaseException | None = None
    for answer in answers:
        try:
            answer.reply(answer.value, answer.error)
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


def run_batch(storage: SqliteStorage, batch: Sequence[Asked], *, apart: bool) -> list[Answer]:
    """Run every request in the transaction under way; `apart` lets each fail by itself.

    Parts cost a savepoint each and are hardly ever needed, since a refused request has changed
    nothing. Raises Undo where one had, and the StorageError that struck the transaction.
    """
    answers = []
    for asked in batch:
        before = storage.db.connection.total_changes()
        try:
            if apart:
                with storage.atomic():
                    value = asked.request(storage)
            else:
                value = asked.request(storage)
        except StorageError as error:
            if not storage.db.in_transaction or strikes_all(error):
                raise
            answers.append(Answer(asked.reply, None, error))
        except Exception as error:
            answers.append(Answer(asked.reply, None, error))
        else:
            answers.append(Answer(asked.reply, value, None))
            continue
        if not apart and storage.db.connection.total_changes() != before:
            raise Undo
    if storage.db.spoiled:
        raise Undo
    return answers
