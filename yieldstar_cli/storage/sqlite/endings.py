"""How a delivery writes and ends: rounds, acknowledgements, releases (spec E8-E12, L2)."""

from __future__ import annotations

from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import StaleDelivery, UndecodableRecord
from yieldstar_cli.model import Delivery, Outcome, Round, Suspended
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.lost import LostDeliveries

# Something new forgives the deaths before it: an execution that kills its worker records nothing.
_PROGRESS = """
UPDATE executions
   SET operations     = operations + :entries,
       last_moment    = CASE WHEN :moment IS NULL THEN last_moment
                             ELSE max(ifnull(last_moment, :moment), :moment) END,
       progress_token = CASE WHEN :progress THEN token ELSE progress_token END,
       deaths         = CASE WHEN :progress THEN 0 ELSE deaths END,
       status_value   = ifnull(:status_value, status_value),
       updated_at     = max(updated_at, :now)
"""
# Liveness of a token is in every write's own WHERE (L2): the claim it came from is still open.
_LIVE = """
 WHERE n = :n AND token = :token AND claimed_by IS NOT NULL
"""
RECORD = _PROGRESS + _LIVE + "RETURNING operations, incarnation, due_at"
# The covered wakes are cleared; what counts is what was asked for since the claim, and the
# delivery's own waits (E9).
SUSPEND = (
    _PROGRESS
    + """,
       status         = 'suspended',
       due_at         = CASE WHEN :due_at IS NULL THEN due_at
                             ELSE min(ifnull(due_at, :due_at), :due_at) END,
       covered_due_at = NULL,
       claimed_by     = NULL,
       acked_token    = token,
       acked_at       = :now,
       problem        = NULL
"""
    + _LIVE
    + "RETURNING operations, incarnation, due_at"
)
# Becoming terminal clears every pending wake (E10).
FINISH = (
    _PROGRESS
    + """,
       status         = :status,
       outcome        = :outcome,
       due_at         = NULL,
       covered_due_at = NULL,
       claimed_by     = NULL,
       acked_token    = token,
       acked_at       = :now,
       problem        = NULL
"""
    + _LIVE
    + "RETURNING operations, incarnation, due_at"
)
STANDING = "SELECT status, outcome, acked_token, due_at FROM executions WHERE n = :n"
# The covered wakes are pending again, merged with later ones (E8).
RELEASE = (
    """
UPDATE executions
   SET due_at         = min(ifnull(covered_due_at, due_at), ifnull(due_at, covered_due_at)),
       covered_due_at = NULL,
       claimed_by     = NULL
"""
    + _LIVE
    + "RETURNING last_worker, claimed_at, problem"
)
HOLD = """
UPDATE executions
   SET problem     = ifnull(:problem, problem),
       held_since  = CASE WHEN :held THEN :now END,
       held_until  = :held_until,
       held_code   = CASE WHEN :held THEN :code END,
       held_module = :module
 WHERE n = :n
"""
# What cannot even be read was not delivered: its wakes stay, and a claim that lapsed is over.
HOLD_UNREADABLE = """
UPDATE executions
   SET due_at         = min(ifnull(covered_due_at, due_at), ifnull(due_at, covered_due_at)),
       covered_due_at = NULL,
       claimed_by     = NULL,
       problem        = :problem,
       held_since     = :now,
       held_until     = NULL,
       held_code      = :code,
       held_module    = NULL
 WHERE n = :n
"""
# Told while the delivery goes on; its acknowledgement clears it.
OPEN_PROBLEM = joined("SELECT problem FROM executions", _LIVE)
NOTE = joined("UPDATE executions SET problem = :problem", _LIVE)
FIND_NUMBER = "SELECT n FROM executions WHERE execution_id = :execution_id"


class Endings:
    """Writes of a live delivery, inside the transaction under way."""

    def __init__(
        self, db: Database, history: History, lost: LostDeliveries, *, clock: Clock
    ) -> None:
        self._db = db
        self._history = history
        self._lost = lost
        self._clock = clock

    def end(self, delivery: Delivery, changes: Round) -> Outcome | None:
        """Write one round and, with an outcome, end the delivery; answers what now stands."""
        number = self._number(delivery)
        bindings = self._progress(number, delivery, changes)
        match changes.outcome:
            case None:
                statement = RECORD
            case Suspended(due_at):
                statement = SUSPEND
                bindings["due_at"] = due_at
            case outcome:
                statement = FINISH
                bindings["status"], bindings["outcome"] = records.stored_outcome(outcome)
        row = self._db.row(statement, bindings)
        if row is None:
            return self._standing(number, delivery, changes)
        operations, incarnation, due_at = row
        if changes.entries:
            # A gap would be read back as another history.
            assert changes.entries[-1].position == operations - 1, "entries follow one another"
        self._history.write(number, incarnation, changes)
        if statement is FINISH:
            self._history.end(number)
        if statement is SUSPEND:
            return Suspended(due_at)
        return changes.outcome

    def _progress(self, number: int, delivery: Delivery, changes: Round) -> dict[str, Any]:
        return {
            "n": number,
            "token": delivery.token,
            "entries": len(changes.entries),
            "moment": changes.entries[-1].at if changes.entries else None,
            "progress": bool(changes.entries or changes.attempts),
            "status_value": changes.status_value,
            "now": self._clock.now_ms(),
        }

    def _standing(self, number: int, delivery: Delivery, changes: Round) -> Outcome:
        """What a delivery whose token is dead is told; nothing has been changed."""
        row = self._db.row(STANDING, {"n": number})
        if row is not None:
            status, outcome, acked_token, due_at = row
            terminal = records.terminal_outcome(status, outcome)
            if terminal is not None:
                return terminal
            if changes.outcome is not None and acked_token == delivery.token > 0:
                # The same acknowledgement again: its answer was lost on the way. (No claim has
                # token 0: that is how a record begins that was never acknowledged.)
                return Suspended(due_at)
        raise stale(delivery)

    def release(
        self,
        delivery: Delivery,
        *,
        how: str,
        problem: tuple[str, str] | None,
        held_until: int | None,
        held: bool,
        module: str | None,
    ) -> None:
        """End the delivery without an outcome. Raises StaleDelivery."""
        number = self._number(delivery)
        now = self._clock.now_ms()
        row = self._db.row(RELEASE, {"n": number, "token": delivery.token})
        if row is None:
            raise stale(delivery)
        last_worker, claimed_at, old_problem = row
        code = plain(how if problem is None else problem[0])
        if problem is not None or held:
            self._db.rows(
                HOLD,
                {
                    "n": number,
                    "now": now,
                    "problem": None
                    if problem is None
                    else records.next_problem(old_problem, code, plain(problem[1]), now),
                    "held": held,
                    "held_until": held_until if held else None,
                    "code": code,
                    "module": module if held else None,
                },
            )
        ended_how = code if how == "released" else how
        self._lost.add(number, delivery.token, last_worker, claimed_at, now, ended_how)

    def hold_unreadable(self, number: int, message: str) -> None:
        """Hold an execution whose rows are damaged, so that it is in nobody's way (E12)."""
        code, now = UndecodableRecord.code, self._clock.now_ms()
        problem = records.next_problem(None, code, message, now)
        self._db.rows(HOLD_UNREADABLE, {"n": number, "now": now, "code": code, "problem": problem})

    def note(self, delivery: Delivery, code: str, message: str) -> None:
        """Keep a problem of a delivery that goes on; nothing where it is over."""
        live = {"n": self._number(delivery), "token": delivery.token}
        row = self._db.row(OPEN_PROBLEM, live)
        if row is not None:
            problem = records.next_problem(row[0], code, plain(message), self._clock.now_ms())
            self._db.rows(NOTE, live | {"problem": problem})

    def _number(self, delivery: Delivery) -> int:
        if delivery.number:
            return delivery.number
        row = self._db.row(FIND_NUMBER, {"execution_id": delivery.execution_id})
        return int(row[0]) if row else 0


def stale(delivery: Delivery) -> StaleDelivery:
    """The refusal of a dead token."""
    return StaleDelivery(
        f"delivery {delivery.token} of {delivery.execution_id!r} is over",
        why=("Another delivery took its place, or it was ended. Nothing was changed.",),
        remedy=(f"ys show {delivery.execution_id}",),
    )


def plain(text: str) -> str:
    """`text` as it can be stored: what is no character stands there as an escape."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
