"""How a delivery ends without an outcome, and what is held after it (spec E8, E12)."""

from __future__ import annotations

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import UndecodableRecord
from yieldstar_cli.model import Delivery
from yieldstar_cli.storage.sqlite import records, tokens
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.lost import LostDeliveries
from yieldstar_cli.storage.sqlite.texts import plain

# Liveness of a token is in every write's own WHERE (L2): the claim it came from is still open.
_LIVE = """
 WHERE n = :n AND token = :token AND claimed_by IS NOT NULL
"""
# The covered wakes are pending again, merged with later ones (E8).
RELEASE = joined(
    """
UPDATE executions
   SET due_at         = min(ifnull(covered_due_at, due_at), ifnull(due_at, covered_due_at)),
       covered_due_at = NULL,
       claimed_by     = NULL
""",
    _LIVE,
    "RETURNING last_worker, claimed_at, problem",
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


class Releases:
    """Ends of deliveries that decide nothing, inside the transaction under way."""

    def __init__(self, db: Database, lost: LostDeliveries, *, clock: Clock) -> None:
        self._db = db
        self._lost = lost
        self._clock = clock

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
        number = tokens.number_of(self._db, delivery)
        now = self._clock.now_ms()
        row = self._db.row(RELEASE, {"n": number, "token": delivery.token})
        if row is None:
            raise tokens.stale(delivery)
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
        live = {"n": tokens.number_of(self._db, delivery), "token": delivery.token}
        row = self._db.row(OPEN_PROBLEM, live)
        if row is not None:
            problem = records.next_problem(row[0], code, plain(message), self._clock.now_ms())
            self._db.rows(NOTE, live | {"problem": problem})
