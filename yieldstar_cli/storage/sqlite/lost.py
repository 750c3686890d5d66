"""Deliveries that ended without an acknowledgement, the last 20 of each execution (spec E5)."""

from __future__ import annotations

from collections.abc import Callable

from yieldstar_cli.model import LostDelivery
from yieldstar_cli.storage.sqlite.database import Database

KEPT = 20

ADD = """
INSERT OR REPLACE INTO lost_deliveries (n, token, worker, started_at, ended_at, how)
VALUES (:n, :token, :worker, :started_at, :ended_at, :how)
"""
FORGET_OLD = """
DELETE FROM lost_deliveries
 WHERE n = :n
   AND token <= (SELECT token FROM lost_deliveries
                  WHERE n = :n ORDER BY token DESC LIMIT 1 OFFSET :kept)
"""
OF_EXECUTION = """
SELECT token, worker, started_at, ended_at, how
  FROM lost_deliveries
 WHERE n = :n
 ORDER BY token
"""


class LostDeliveries:
    """The table of lost deliveries."""

    def __init__(self, db: Database) -> None:
        self._db = db
        #: Called with the number of an execution whose delivery ended so.
        self.then: Callable[[int], None] | None = None

    def add(
        self, number: int, token: int, worker: str | None, started_at: int, ended_at: int, how: str
    ) -> None:
        """Keep one, and forget those before the last 20."""
        bindings = {
            "n": number,
            "token": token,
            "worker": worker or "",
            "started_at": started_at,
            "ended_at": ended_at,
            "how": how,
            "kept": KEPT,
        }
        self._db.rows(ADD, bindings)
        self._db.rows(FORGET_OLD, bindings)
        if self.then is not None:
            self.then(number)

    def of(self, number: int) -> list[LostDelivery]:
        """Those of one execution, oldest first."""
        return [LostDelivery(*row) for row in self._db.rows(OF_EXECUTION, {"n": number})]
