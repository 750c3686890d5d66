"""What a delivery names, and what one that is over is told (spec E9, L2)."""

from __future__ import annotations

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import Continued, Delivery, Recorded, Round, Suspended
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database

FIND_NUMBER = "SELECT n FROM executions WHERE execution_id = :execution_id"
STANDING = """
SELECT e.status, e.outcome, e.acked_token, e.due_at, i.n IS NOT NULL
  FROM executions AS e
  LEFT JOIN incarnations AS i
    ON i.n = e.n AND i.incarnation = e.incarnation - 1 AND i.ended_at = e.acked_at
 WHERE e.n = :n
"""


def number_of(db: Database, delivery: Delivery) -> int:
    """The number of the delivery's execution; 0, which none has, where there is none."""
    if delivery.number:
        return delivery.number
    row = db.row(FIND_NUMBER, {"execution_id": delivery.execution_id})
    return int(row[0]) if row else 0


def told_again(db: Database, delivery: Delivery, changes: Round) -> Recorded:
    """What a round's delivery is told whose token is dead; nothing has been changed.

    Raises StaleDelivery.
    """
    row = db.row(STANDING, {"n": number_of(db, delivery)})
    if row is not None:
        status, outcome, acked_token, due_at, continued = row
        terminal = records.terminal_outcome(status, outcome)
        if terminal is not None:
            return Recorded(terminal)
        if changes.outcome is not None and acked_token == delivery.token > 0:
            # The same acknowledgement again: its answer was lost on the way. (No claim has
            # token 0: that is how a record begins that was never acknowledged.)
            if continued and isinstance(changes.outcome, Continued):
                return Recorded(changes.outcome)
            return Recorded(Suspended(due_at))
    raise stale(delivery)


def stale(delivery: Delivery) -> StaleDelivery:
    """The refusal of a dead token."""
    return StaleDelivery(
        f"delivery {delivery.token} of {delivery.execution_id!r} is over",
        why=("Another delivery took its place, or it was ended. Nothing was changed.",),
        remedy=(f"ys show {delivery.execution_id}",),
    )
