"""What the end of an execution, or a wish to cancel it, means for others (spec C2, C4, C6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from yieldstar_cli.model import CancelAnswer, CancelledOutcome, Status
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.bulk import Bulk
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.lost import LostDeliveries
from yieldstar_cli.storage.sqlite.waits import Waits

# A bare wake: it ends no hold (E12). An open delivery is told to look again instead (R10).
BARE_WAKE = """
UPDATE executions
   SET due_at = iif(claimed_by IS NULL, min(ifnull(due_at, :now), :now), due_at),
       nudged = nudged + (claimed_by IS NOT NULL)
 WHERE n = :n
   AND status IN ('admitted', 'suspended')
"""
# The first reason stays (C6); the wake may have been used up meanwhile, so it is asked for again.
REQUEST_CANCEL = """
UPDATE executions
   SET cancel_reason = iif(cancel_at IS NULL, :reason, cancel_reason),
       cancel_at     = ifnull(cancel_at, :now),
       due_at        = iif(claimed_by IS NULL AND NOT cancel_told,
                           min(ifnull(due_at, :now), :now), due_at),
       nudged        = nudged + (claimed_by IS NOT NULL AND NOT cancel_told)
 WHERE n = :n
   AND status IN ('admitted', 'suspended')
"""
# Without its code: whoever holds the delivery finds its token dead (E10, L2).
CANCEL_NOW = """
UPDATE executions
   SET status         = 'cancelled',
       outcome        = :outcome,
       cancel_reason  = iif(cancel_at IS NULL, :reason, cancel_reason),
       cancel_at      = ifnull(cancel_at, :now),
       updated_at     = max(updated_at, :now),
       due_at         = NULL,
       covered_due_at = NULL,
       claimed_by     = NULL,
       held_since     = NULL,
       held_until     = NULL,
       held_code      = NULL,
       held_module    = NULL,
       poisoned_at    = NULL,
       paused         = NULL,
       needs          = NULL,
       needs_since    = NULL
 WHERE n = :n
   AND status IN ('admitted', 'suspended')
RETURNING execution_id, updated_at, token, last_worker, claimed_at
"""
STANDING = "SELECT status, token, claimed_by, cancel_reason FROM executions WHERE n = :n"
FIND = "SELECT n FROM executions WHERE execution_id = :execution_id"
LINKED = """
SELECT n, token
  FROM executions
 WHERE parent = :n
   AND NOT detached
   AND status IN ('admitted', 'suspended')
 ORDER BY n
"""
# Of many that have ended, those with linked children that go on.
PARENTS = Bulk(
    "WITH given (n) AS (VALUES",
    "(?)",
    """
)
SELECT e.n, e.execution_id, e.status, e.updated_at
  FROM given
 CROSS JOIN executions AS e ON e.n = given.n
 WHERE EXISTS (SELECT 1
                 FROM executions AS child
                WHERE child.parent = e.n
                  AND NOT child.detached
                  AND child.status IN ('admitted', 'suspended'))
 ORDER BY e.n
""",
)


class Ended(NamedTuple):
    """An execution that has become terminal in the transaction under way."""

    number: int
    execution_id: str
    status: str
    #: When, as its record says.
    at: int


class Consequences:
    """Writes to other executions, inside the transaction under way."""

    def __init__(self, db: Database, waits: Waits, history: History, lost: LostDeliveries) -> None:
        self._db = db
        self._waits = waits
        self._history = history
        self._lost = lost

    def find(self, execution_id: str) -> int | None:
        """The number of an execution, or None where there is none."""
        row = self._db.row(FIND, {"execution_id": execution_id})
        return None if row is None else int(row[0])

    def wake(self, number: int, now: int) -> None:
        """A bare wake: due now, or, under an open delivery, to be looked at again."""
        self._db.rows(BARE_WAKE, {"n": number, "now": now})

    def cancel(
        self, number: int, reason: str | None, now: int, *, at_once: bool = False
    ) -> CancelAnswer:
        """Ask for a cancellation; one that never began, or any with `at_once`, ends here (C6)."""
        (status, token, _, _) = self._db.rows(STANDING, {"n": number})[0]
        if Status(status).terminal:
            return "ignored"
        if at_once or token == 0:
            self.follow([self._cancel_now(number, reason, now)], now, at_once=at_once)
            return "cancelled"
        self._db.rows(REQUEST_CANCEL, {"n": number, "reason": reason, "now": now})
        return "requested"

    def follow(self, ended: list[Ended], now: int, *, at_once: bool = False) -> bool:
        """Wake who waits for these, and pass the end on to their linked children (C2, C4).

        True if there is anybody.
        """
        todo = deque(ended)
        stirred = False
        while todo:
            end = todo.popleft()
            for waiting in self._waits.mark(end.number, end.at):
                self.wake(waiting, now)
                stirred = True
            reason = f"its parent {end.execution_id} {end.status}"
            for child, token in self._db.rows(LINKED, {"n": end.number}):
                stirred = True
                if at_once or token == 0:
                    todo.append(self._cancel_now(child, reason, now))
                else:
                    self._db.rows(REQUEST_CANCEL, {"n": child, "reason": reason, "now": now})
        return stirred

    def follow_all(self, ended: Sequence[int], now: int) -> set[int]:
        """As `follow`, for many that have ended; those among them that meant anything."""
        waiting, awaited = self._waits.mark_all(ended)
        for number in waiting:
            self.wake(number, now)
        parents = [Ended._make(row) for row in PARENTS.rows(self._db, [(n,) for n in ended])]
        if parents:
            self.follow(parents, now)
        return {*awaited, *(parent.number for parent in parents)}

    def _cancel_now(self, number: int, reason: str | None, now: int) -> Ended:
        (_, _, claimed_by, asked) = self._db.rows(STANDING, {"n": number})[0]
        # Who only presses on what was asked for before means the same.
        reason = asked if reason is None else reason
        _, outcome = records.stored_outcome(CancelledOutcome(reason))
        bindings = {"n": number, "reason": reason, "outcome": outcome, "now": now}
        row = self._db.row(CANCEL_NOW, bindings)
        assert row is not None, "it was open a moment ago, in this same transaction"
        execution_id, at, token, last_worker, claimed_at = row
        if claimed_by is not None:
            self._lost.add(number, token, last_worker, claimed_at, now, "cancelled")
        self._waits.end_all(number)
        self._history.end(number)
        return Ended(number, execution_id, Status.CANCELLED, at)
