"""Plain rounds of many deliveries at once: a few statements for all of them (spec R4, L2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.model import Continued, Delivery, Recorded, Round, Suspended
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.bulk import Bulk
from yieldstar_cli.storage.sqlite.consequences import Consequences
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.waits import Waits

# Which of these go one by one instead: a dead token, entries that do not follow the recorded
# ones, and what an event or a request to cancel has reached since its claim (L2, R10).
NOT_PLAIN = Bulk(
    "WITH given (n, token, first) AS (VALUES",
    "(?, ?, ?)",
    """
)
SELECT given.n
  FROM given
  LEFT JOIN executions AS e ON e.n = given.n
 WHERE given.n IS NOT NULL
   AND (e.n IS NULL
        OR e.token <> given.token
        OR e.claimed_by IS NULL
        OR e.operations <> given.first
        OR e.nudged > 0
        OR (e.cancel_at IS NOT NULL AND NOT e.cancel_told))
""",
)
_GIVEN = """
WITH given (n, token, entries, moment, status_value, now, status, outcome) AS (VALUES
"""
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
# As in `endings`: something new forgives the deaths before it.
_PROGRESS = """
)
UPDATE executions
   SET operations     = operations + given.entries,
       last_moment    = iif(given.moment IS NULL, last_moment,
                            max(ifnull(last_moment, given.moment), given.moment)),
       progress_token = iif(given.entries > 0, executions.token, progress_token),
       deaths         = iif(given.entries > 0, 0, deaths),
       status_value   = ifnull(given.status_value, executions.status_value),
       updated_at     = max(updated_at, given.now)
"""
_ENDED = """,
       covered_due_at = NULL,
       claimed_by     = NULL,
       acked_token    = executions.token,
       acked_at       = given.now,
       problem        = NULL,
       status         = given.status,
       outcome        = given.outcome,
       due_at         = NULL,
       paused         = NULL,
       needs          = NULL,
       needs_since    = NULL
"""
# Liveness of a token is in every write's own WHERE (L2).
_LIVE = """
  FROM given
 WHERE executions.n = given.n
   AND executions.token = given.token
   AND executions.claimed_by IS NOT NULL
"""
RECORD_ALL = Bulk(_GIVEN, _ROW, joined(_PROGRESS, _LIVE))
FINISH_ALL = Bulk(_GIVEN, _ROW, joined(_PROGRESS, _ENDED, _LIVE))
_RECORDED = Recorded(None)


class Together:
    """Writes plain rounds of several deliveries, inside the transaction under way."""

    def __init__(
        self,
        db: Database,
        history: History,
        waits: Waits,
        consequences: Consequences,
        *,
        clock: Clock,
    ) -> None:
        self._db = db
        self._history = history
        self._waits = waits
        self._consequences = consequences
        self._clock = clock

    def plain(self, delivery: Delivery, changes: Round) -> bool:
        """Whether a round may be written by this at all."""
        return bool(
            delivery.number
            and (changes.entries or changes.outcome is not None)
            and not isinstance(changes.outcome, Suspended | Continued)
            and not (
                changes.attempts
                or changes.logs
                or changes.waits
                or changes.unwait
                or changes.consumed
                or changes.invalid
                or changes.actions
                or changes.told
            )
        )

    def write(self, rounds: Sequence[tuple[Delivery, Round]]) -> dict[int, Recorded]:
        """Write plain rounds; answers by number what came of those that were written.

        The others, whose deliveries are not as plain as their rounds, are left as they were.
        """
        given = [
            (d.number, d.token, r.entries[0].position if r.entries else None) for d, r in rounds
        ]
        others = {number for (number,) in NOT_PLAIN.rows(self._db, given)}
        if others:
            rounds = [(d, r) for d, r in rounds if d.number not in others]
        now = self._clock.now_ms()
        going = [(d, r) for d, r in rounds if r.outcome is None]
        ending = [(d, r) for d, r in rounds if r.outcome is not None]
        if going:
            self._update(RECORD_ALL, going, now)
        if ending:
            self._update(FINISH_ALL, ending, now)
        self._history.add_all([(d.number, entry) for d, r in rounds for entry in r.entries])
        answers = {d.number: _RECORDED for d, _ in going}
        if ending:
            answers |= self._ended(ending, now)
        return answers

    def _update(self, statement: Bulk, rounds: Sequence[tuple[Delivery, Round]], now: int) -> None:
        before = self._db.connection.total_changes()
        statement.rows(self._db, [_given(delivery, changes, now) for delivery, changes in rounds])
        changed = self._db.connection.total_changes() - before
        assert changed == len(rounds), "they were live a moment ago, in this same transaction"

    def _ended(self, rounds: Sequence[tuple[Delivery, Round]], now: int) -> dict[int, Recorded]:
        numbers = [delivery.number for delivery, _ in rounds]
        self._waits.end_all_of(numbers)
        self._history.end_all_of(numbers)
        stirred = self._consequences.follow_all(numbers, now)
        return {d.number: Recorded(r.outcome, stirred=d.number in stirred) for d, r in rounds}


def _given(delivery: Delivery, changes: Round, now: int) -> tuple[Any, ...]:
    status = outcome = None
    if changes.outcome is not None:
        status, outcome = records.stored_outcome(changes.outcome)
    entries = changes.entries
    return (
        delivery.number,
        delivery.token,
        len(entries),
        entries[-1].at if entries else None,
        changes.status_value,
        now,
        status,
        outcome,
    )
