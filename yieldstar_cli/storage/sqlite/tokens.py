"""What a delivery names, and the refusal of one that is over (spec L2)."""

from __future__ import annotations

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import Delivery
from yieldstar_cli.storage.sqlite.database import Database

FIND_NUMBER = "SELECT n FROM executions WHERE execution_id = :execution_id"


def number_of(db: Database, delivery: Delivery) -> int:
    """The number of the delivery's execution; 0, which none has, where there is none."""
    if delivery.number:
        return delivery.number
    row = db.row(FIND_NUMBER, {"execution_id": delivery.execution_id})
    return int(row[0]) if row else 0


def stale(delivery: Delivery) -> StaleDelivery:
    """The refusal of a dead token."""
    return StaleDelivery(
        f"delivery {delivery.token} of {delivery.execution_id!r} is over",
        why=("Another delivery took its place, or it was ended. Nothing was changed.",),
        remedy=(f"ys show {delivery.execution_id}",),
    )
