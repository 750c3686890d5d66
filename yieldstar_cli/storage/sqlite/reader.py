"""What the reading commands ask (spec E5); never writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Attempt, Entry, ExecutionRecord, LogLine, LostDelivery, Wait
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.finding import SORTED, STATUSES, Part, parts_of
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.lost import LostDeliveries
from yieldstar_cli.storage.sqlite.waits import Waits

# By status and all in one view; what completed well is not read, but is the rest.
COUNTS = """
SELECT admitted, cancelled, ended - unwell, unwell - cancelled, open - admitted
  FROM (SELECT count(*) AS ended
          FROM executions INDEXED BY executions_ended
         WHERE status IN ('completed', 'failed', 'cancelled')),
       (SELECT count(*) AS open, count(*) FILTER (WHERE status = 'admitted') AS admitted
          FROM executions INDEXED BY executions_open
         WHERE status IN ('admitted', 'suspended')),
       (SELECT count(*) AS unwell, count(*) FILTER (WHERE status = 'cancelled') AS cancelled
          FROM executions INDEXED BY executions_unwell
         WHERE status IN ('failed', 'cancelled'))
"""
COUNTED = ("admitted", "cancelled", "completed", "failed", "suspended")
COUNTS_OF = """
SELECT status, count(*)
  FROM executions
 WHERE workflow_id = :workflow_id
 GROUP BY status
"""
# Of the pruned ones alone, from their own index: what else is there need not be asked twice.
COUNTS_PRUNED = """
SELECT status, count(*)
  FROM executions INDEXED BY executions_pruned
 WHERE pruned_at IS NOT NULL AND (:workflow_id IS NULL OR workflow_id = :workflow_id)
 GROUP BY status
"""
# IDs that begin alike, read from the index of IDs.
BEGIN_ALIKE = """
SELECT execution_id
  FROM executions
 WHERE execution_id >= :low AND execution_id < :high
 LIMIT 2000
"""
BEGINNING = """
SELECT execution_id
  FROM executions
 WHERE execution_id >= :prefix AND substr(execution_id, 1, length(:prefix)) = :prefix
   AND execution_id < :prefix || :last
 ORDER BY execution_id
 LIMIT :limit
"""
LATEST = """
SELECT execution_id
  FROM (SELECT execution_id, updated_at
          FROM executions INDEXED BY executions_open
         WHERE status IN ('admitted', 'suspended')
         ORDER BY updated_at DESC LIMIT 500)
UNION ALL
SELECT execution_id
  FROM (SELECT execution_id, updated_at
          FROM executions INDEXED BY executions_ended
         WHERE status IN ('completed', 'failed', 'cancelled')
         ORDER BY updated_at DESC LIMIT 500)
"""
_LAST_CHARACTER = "\U0010ffff"


class SqliteReader:
    """The reader on SQLite; `contract.Reader` says what each method means."""

    def __init__(
        self,
        db: Database,
        history: History,
        lost: LostDeliveries,
        waits: Waits,
        *,
        clock: Clock,
        redelivery_ms: int,
    ) -> None:
        self._db = db
        self._history = history
        self._lost = lost
        self._waits = waits
        self._clock = clock
        self._redelivery_ms = redelivery_ms

    def find(
        self,
        *,
        workflow_id: str | None = None,
        statuses: Sequence[str] | None = None,
        running: bool = False,
        waiting: bool = False,
        due_by: int | None = None,
        updated_since: int | None = None,
        updated_before: int | None = None,
        where: Mapping[str, str] | None = None,
        sort: str = "updated",
        reverse: bool = False,
        limit: int | None = 20,
        offset: int = 0,
        payloads: bool = True,
        awaiting: str | None = None,
        pruned: bool = True,
    ) -> list[ExecutionRecord]:
        """See `contract.Reader.find`."""
        bindings = {
            "workflow_id": workflow_id,
            "statuses": None if statuses is None else json.dumps(list(statuses)),
            "running": running,
            "waiting": waiting,
            "due_by": due_by,
            "updated_since": updated_since,
            "updated_before": updated_before,
            "where": json.dumps(dict(where)) if where else None,
            "limit": -1 if limit is None else limit,
            "offset": offset,
            "now": self._clock.now_ms(),
            "redelivery_ms": self._redelivery_ms,
            "payloads": payloads,
            "awaiting": awaiting,
            "pruned": pruned,
        }
        if (sort, reverse) == ("updated", False):
            wanted = STATUSES if statuses is None else frozenset(statuses)
            return self._latest(parts_of(bindings, wanted), bindings)
        statement = SORTED.get((sort, reverse))
        if statement is None:
            raise UsageError(
                f"there is no order {sort!r}", remedy=("--sort updated|due|admitted|took",)
            )
        return self._records(statement, bindings)

    def _latest(self, parts: Sequence[Part], bindings: dict[str, Any]) -> list[ExecutionRecord]:
        """The page that begins in one of `parts` and may end in a later one."""
        limit, offset = bindings["limit"], bindings["offset"]
        found: list[ExecutionRecord] = []
        for part in parts:
            page = bindings | {"limit": limit, "offset": offset}
            read = self._records(part.records, page)
            found += read
            if 0 <= limit == len(read):
                break
            limit = limit if limit < 0 else limit - len(read)
            if offset and part is not parts[-1]:
                offset = max(0, offset - self._db.rows(part.counting, bindings)[0][0])
        return found

    def _records(self, statement: str, bindings: dict[str, Any]) -> list[ExecutionRecord]:
        return [records.record(row) for row in self._db.rows(statement, bindings)]

    def counts(self, workflow_id: str | None = None, *, pruned: bool = True) -> dict[str, int]:
        """See `contract.Reader.counts`."""
        bindings = {"workflow_id": workflow_id}
        if workflow_id is None:
            counts = dict(zip(COUNTED, map(int, self._db.rows(COUNTS)[0]), strict=True))
        else:
            rows = self._db.rows(COUNTS_OF, bindings)
            counts = {str(status): int(count) for status, count in rows}
        if not pruned:
            for status, count in self._db.rows(COUNTS_PRUNED, bindings):
                counts[status] -= count
        return {status: count for status, count in counts.items() if count}

    def history(self, number: int, incarnation: int) -> list[Entry]:
        """See `contract.Reader.history`."""
        return self._history.entries(number, incarnation)

    def attempts(self, number: int, incarnation: int) -> list[Attempt]:
        """See `contract.Reader.attempts`."""
        return self._history.attempts(number, incarnation)

    def waits(self, number: int) -> list[Wait]:
        """See `contract.Reader.waits`."""
        return self._waits.of(number)

    def logs(self, number: int) -> list[LogLine]:
        """See `contract.Reader.logs`."""
        return self._history.logs(number)

    def lost_deliveries(self, number: int) -> list[LostDelivery]:
        """See `contract.Reader.lost_deliveries`."""
        return self._lost.of(number)

    def nearest_ids(self, execution_id: str, limit: int = 3) -> list[str]:
        """See `contract.Reader.nearest_ids`."""
        import difflib  # Needed only when something was not found.

        known: dict[str, None] = {}
        for begin in {execution_id[:3], execution_id[:3].lower(), execution_id[:1]}:
            alike = {"low": begin, "high": begin + _LAST_CHARACTER}
            if begin.isprintable():
                known |= {row[0]: None for row in self._db.rows(BEGIN_ALIKE, alike)}
        known |= {row[0]: None for row in self._db.rows(LATEST)}
        folded = {name.casefold(): name for name in sorted(known)}
        close = difflib.get_close_matches(execution_id.casefold(), folded, n=limit, cutoff=0.6)
        return [folded[name] for name in close]

    def ids_beginning(self, prefix: str, limit: int = 4) -> list[str]:
        """See `contract.Reader.ids_beginning`."""
        if not prefix.isprintable():
            return []
        bindings = {"prefix": prefix, "last": _LAST_CHARACTER, "limit": limit}
        return [str(row[0]) for row in self._db.rows(BEGINNING, bindings)]
