"""What is ready for an open delivery (spec R4, R10, O6); writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from yieldstar_cli.errors import InvalidExecutionEvent
from yieldstar_cli.model import Arrived, CancelRequested, Look, TerminalOutcome
from yieldstar_cli.storage.sqlite import admission, records
from yieldstar_cli.storage.sqlite.database import BEGIN_READ, Database
from yieldstar_cli.storage.sqlite.inbox import SqliteInbox
from yieldstar_cli.storage.sqlite.stores import SqliteStores
from yieldstar_cli.storage.sqlite.waits import Waits

STEERED = """
SELECT CASE WHEN NOT cancel_told THEN cancel_at END, cancel_reason,
       paused IS NOT NULL
       OR EXISTS (SELECT 1 FROM pauses WHERE workflow_id IN ('', executions.workflow_id))
  FROM executions
 WHERE n = :n
"""
STATUS = """
SELECT status, outcome, pruned_at FROM executions WHERE execution_id = :execution_id
"""
NUDGED = """
SELECT n, nudged
  FROM executions INDEXED BY executions_nudged
 WHERE claimed_by = :worker AND nudged > 0
"""


# What a delivery has to look at before it may suspend; whether it waits on a queue at all; and
# whether a mark keeps it from going on anyway.
READY = """
SELECT (cancel_at IS NOT NULL AND NOT cancel_told AND NOT :told)
       OR EXISTS (SELECT 1 FROM waits INDEXED BY waits_ready
                   WHERE n = :n AND ready_at IS NOT NULL),
       EXISTS (SELECT 1 FROM waits INDEXED BY waits_queues
                WHERE n = :n AND queue IS NOT NULL),
       paused IS NOT NULL
       OR EXISTS (SELECT 1 FROM pauses WHERE workflow_id IN ('', executions.workflow_id))
  FROM executions
 WHERE n = :n
"""


class Ready(NamedTuple):
    """Whether a delivery has something to look at, and whether a mark keeps it from going on."""

    anything: bool
    paused: bool


class Looks:
    """Reads for deliveries, on one unchanging view of the file each."""

    def __init__(
        self, db: Database, waits: Waits, inbox: SqliteInbox, stores: SqliteStores
    ) -> None:
        self._db = db
        self._waits = waits
        self._inbox = inbox
        self._stores = stores

    def look(
        self,
        number: int,
        queues: Mapping[str, tuple[int, int]],
        depths: Sequence[str],
        statuses: Sequence[str],
        stores: Sequence[tuple[str, str]],
    ) -> Look:
        """What is ready for execution `number`."""
        with self._one_view():
            steered = self._db.row(STEERED, {"n": number})
            cancel_at, cancel_reason, paused = steered or (None, None, False)
            arrived: list[Arrived] = []
            for queue, (after, wanted) in queues.items():
                arrived += self._inbox.unread(number, queue, after, wanted)
            return Look(
                arrived=tuple(sorted(arrived, key=lambda message: message.number)),
                ended=tuple(self._waits.ended(number)),
                cancel=None if cancel_at is None else CancelRequested(cancel_at, cancel_reason),
                paused=bool(paused),
                depths={queue: self._inbox.depth(number, queue) for queue in depths},
                statuses={execution_id: self._status(execution_id) for execution_id in statuses},
                stores={store: self._stores.get(*store) for store in stores},
            )

    def _status(self, execution_id: str) -> tuple[str, TerminalOutcome | None] | None:
        try:
            known = {"execution_id": admission.checked_id(execution_id)}
        except InvalidExecutionEvent:
            return None
        row = self._db.row(STATUS, known)
        if row is None:
            return None
        status, outcome, pruned_at = row
        return status, None if pruned_at is not None else records.terminal_outcome(status, outcome)

    def ready(self, number: int, *, told: bool) -> Ready:
        """Whether there is something to look at; `told`: the function knows of its cancellation."""
        marked, on_queue, paused = self._db.rows(READY, {"n": number, "told": told})[0]
        unread = bool(on_queue) and not marked and self._inbox.any_unread(number)
        return Ready(bool(marked) or unread, bool(paused))

    def nudged(self, worker: int) -> list[tuple[int, int]]:
        """The open deliveries of `worker` for which something has happened since their claim."""
        return [(n, count) for n, count in self._db.rows(NUDGED, {"worker": worker})]

    @contextmanager
    def _one_view(self) -> Iterator[None]:
        """Between two questions nobody commits: of two ends the earlier is never missed (O6)."""
        if self._db.in_transaction:
            yield
            return
        self._db.rows(BEGIN_READ)
        try:
            yield
        finally:
            self._db.rollback()
