"""Who started whom, and what an execution was before (spec C2, C7); never writes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from yieldstar_cli.model import ExecutionRecord, Incarnation
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.history import History

CHILDREN = joined(
    records.SELECT_RECORD,
    """
 WHERE e.parent = :n
   AND (:statuses IS NULL OR e.status IN (SELECT value FROM json_each(:statuses)))
 ORDER BY e.n
 LIMIT :limit
""",
)
COUNTS = """
SELECT workflow_id, status, count(*)
  FROM executions
 WHERE parent = :n
 GROUP BY workflow_id, status
"""


class SqliteFamily:
    """The family on SQLite; `contract.Family` says what each method means."""

    def __init__(self, db: Database, history: History, *, redelivery_ms: int) -> None:
        self._db = db
        self._history = history
        self._redelivery_ms = redelivery_ms

    def children(
        self, number: int, *, statuses: Sequence[str] | None = None, limit: int | None = None
    ) -> list[ExecutionRecord]:
        """See `contract.Family.children`."""
        bindings = {
            "n": number,
            "statuses": None if statuses is None else json.dumps(list(statuses)),
            "limit": -1 if limit is None else limit,
            "payloads": False,
            "redelivery_ms": self._redelivery_ms,
        }
        return [records.record(row) for row in self._db.rows(CHILDREN, bindings)]

    def child_counts(self, number: int) -> dict[tuple[str, str], int]:
        """See `contract.Family.child_counts`."""
        return {
            (workflow_id, status): count
            for workflow_id, status, count in self._db.rows(COUNTS, {"n": number})
        }

    def incarnations(self, number: int) -> list[Incarnation]:
        """See `contract.Family.incarnations`."""
        return self._history.incarnations(number)
