"""The open operations of executions, and which of them are ready (spec R4, R10, C2)."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.model import Ended, Wait
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database

WAITS = """
SELECT kind, step_key, label, since_at, due_at, state, attempt, position, queue, target, tag
  FROM waits
 WHERE n = :n
 ORDER BY position, kind, step_key
"""
# What was ready before stays ready since then: an awaited execution that is missing has no moment
# of its own.
PUT = """
INSERT INTO waits (n, kind, step_key, label, since_at, due_at, state, attempt, position, queue,
                   target, tag, target_n, ready_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (n, kind, step_key) DO UPDATE
   SET label    = excluded.label,
       since_at = excluded.since_at,
       due_at   = excluded.due_at,
       state    = excluded.state,
       attempt  = excluded.attempt,
       position = excluded.position,
       queue    = excluded.queue,
       target   = excluded.target,
       tag      = excluded.tag,
       target_n = excluded.target_n,
       ready_at = CASE WHEN target IS excluded.target AND excluded.ready_at IS NOT NULL
                       THEN ifnull(ready_at, excluded.ready_at)
                       ELSE excluded.ready_at END
"""
# A terminal record never changes, so `updated_at` is the moment of its end.
TARGET = """
SELECT n, CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN updated_at END
  FROM executions
 WHERE execution_id = :target
"""
END = "DELETE FROM waits WHERE n = ? AND kind = ? AND step_key = ?"
END_ALL = "DELETE FROM waits WHERE n = :n"
# The execution that is waited for has ended; answers who waits.
MARK = """
UPDATE waits
   SET ready_at = :at
 WHERE target_n = :target_n AND ready_at IS NULL
RETURNING n
"""
# Only what is ready is read, however much is open.
ENDED = """
SELECT w.step_key, w.target, w.ready_at, e.status, e.outcome
  FROM waits AS w INDEXED BY waits_ready
  LEFT JOIN executions AS e ON e.n = w.target_n
 WHERE w.n = :n AND w.ready_at IS NOT NULL
 ORDER BY w.ready_at, w.position
"""


class Waits:
    """The table of waits, inside the transaction under way."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, number: int, waits: Sequence[Wait], now: int) -> None:
        """Add open operations, or replace them; the others stay untouched.

        One that awaits an execution which has ended, or which does not exist, is ready at once.
        """
        self._db.run_many(PUT, [self._row(number, wait, now) for wait in waits])

    def _row(self, number: int, wait: Wait, now: int) -> tuple[object, ...]:
        target_n = ready_at = None
        if wait.target is not None:
            found = self._db.row(TARGET, {"target": wait.target})
            target_n, ready_at = (None, now) if found is None else found
        return (
            number,
            wait.kind,
            wait.step_key,
            wait.label,
            wait.since_at,
            wait.due_at,
            wait.state,
            wait.attempt,
            wait.position,
            wait.queue,
            wait.target,
            wait.tag,
            target_n,
            ready_at,
        )

    def end(self, number: int, operations: Sequence[tuple[str, str]]) -> None:
        """These, by kind and key, are open no more."""
        self._db.run_many(END, [(number, kind, key) for kind, key in operations])

    def end_all(self, number: int) -> None:
        """Nothing of the execution is open any more."""
        self._db.rows(END_ALL, {"n": number})

    def mark(self, target_n: int, at: int) -> list[int]:
        """Every wait for this execution is ready; answers the numbers of those who wait."""
        rows = self._db.rows(MARK, {"target_n": target_n, "at": at})
        return sorted({number for (number,) in rows})

    # --- reading -----------------------------------------------------------------------------

    def of(self, number: int) -> list[Wait]:
        """The open operations, in the order they were named."""
        return [Wait(*row) for row in self._db.rows(WAITS, {"n": number})]

    def ended(self, number: int) -> list[Ended]:
        """The awaited executions that have ended or do not exist, in the order they did."""
        return [
            Ended(key, target, at, records.terminal_outcome(status, outcome) if status else None)
            for key, target, at, status, outcome in self._db.rows(ENDED, {"n": number})
        ]
