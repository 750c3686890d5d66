"""What the reading commands ask (spec E5); never writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Attempt, Entry, ExecutionRecord, LogLine, LostDelivery, Wait
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.lost import LostDeliveries
from yieldstar_cli.storage.sqlite.waits import Waits

# Each filter is there always and is switched off by NULL, so that no statement is ever put
# together from what somebody typed.
_FILTERED = """
 WHERE (:workflow_id IS NULL OR e.workflow_id = :workflow_id)
   AND (:statuses IS NULL OR e.status IN (SELECT value FROM json_each(:statuses)))
   AND (NOT :running OR (e.claimed_by IS NOT NULL AND iif(e.claimed_by = 0,
                         e.claimed_at + :redelivery_ms, w.lease_until_at) > :now))
   AND (NOT :waiting OR (e.status = 'suspended' AND e.claimed_by IS NULL))
   AND (:due_by IS NULL OR ifnull(e.due_at, e.covered_due_at) <= :due_by)
   AND (:updated_since IS NULL OR e.updated_at >= :updated_since)
   AND (:updated_before IS NULL OR e.updated_at < :updated_before)
   AND (:where IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:where) AS wanted
         WHERE NOT EXISTS (SELECT 1 FROM json_each(e.params) AS given
                            WHERE given.key = wanted.key
                              AND CASE given.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'
                                       WHEN 'null' THEN 'null' ELSE CAST(given.value AS TEXT) END
                                  = wanted.value)))
   AND (:awaiting IS NULL OR (e.status IN ('admitted', 'suspended')
                              AND e.n IN (SELECT n FROM waits WHERE queue = :awaiting)))
   AND (:pruned OR e.pruned_at IS NULL)
"""
_PAGE = "LIMIT :limit OFFSET :offset"
_LATEST_FIRST = joined("ORDER BY e.updated_at DESC, e.n DESC", _PAGE)
# The usual list, unfinished ones first: each half is read in the order of an index of its own,
# and no further than the page goes.
_UNFINISHED = "AND e.status IN ('admitted', 'suspended')"
UNFINISHED = joined(records.SELECT_RECORD, _FILTERED, _UNFINISHED, _LATEST_FIRST)
COUNT_UNFINISHED = joined("SELECT count(*)", records.FROM, _FILTERED, _UNFINISHED)
FINISHED = joined(
    records.SELECT_RECORD,
    _FILTERED,
    "AND e.status IN ('completed', 'failed', 'cancelled')",
    _LATEST_FIRST,
)
# Elsewhere the numbers are sorted first, and only the page's records are read whole.
_SORT = joined(records.COLUMNS, "FROM (SELECT e.n", records.FROM, _FILTERED)
_READ = """
) AS page
  JOIN executions AS e ON e.n = page.n
  LEFT JOIN workers AS w ON w.n = e.claimed_by
"""
_FINISHED_FIRST = "ORDER BY e.status IN ('admitted', 'suspended'), e.updated_at, e.n"
_DUE_FIRST = """
 ORDER BY ifnull(e.due_at, e.covered_due_at) IS NULL, ifnull(e.due_at, e.covered_due_at), e.n
"""
_DUE_LAST = "ORDER BY ifnull(e.due_at, e.covered_due_at) DESC, e.n DESC"
_NEWEST = "ORDER BY e.admitted_at DESC, e.n DESC"
_OLDEST = "ORDER BY e.admitted_at, e.n"
_LONGEST = "ORDER BY e.updated_at - e.admitted_at DESC, e.n DESC"
_SHORTEST = "ORDER BY e.updated_at - e.admitted_at, e.n"
SORTED = {
    ("updated", True): joined(_SORT, _FINISHED_FIRST, _PAGE, _READ, _FINISHED_FIRST),
    ("due", False): joined(_SORT, _DUE_FIRST, _PAGE, _READ, _DUE_FIRST),
    ("due", True): joined(_SORT, _DUE_LAST, _PAGE, _READ, _DUE_LAST),
    ("admitted", False): joined(_SORT, _NEWEST, _PAGE, _READ, _NEWEST),
    ("admitted", True): joined(_SORT, _OLDEST, _PAGE, _READ, _OLDEST),
    ("took", False): joined(_SORT, _LONGEST, _PAGE, _READ, _LONGEST),
    ("took", True): joined(_SORT, _SHORTEST, _PAGE, _READ, _SHORTEST),
}
COUNTS = """
SELECT status, count(*)
  FROM executions
 WHERE (:workflow_id IS NULL OR workflow_id = :workflow_id)
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
LATEST = "SELECT execution_id FROM executions ORDER BY updated_at DESC LIMIT 500"
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
            return self._latest(bindings)
        statement = SORTED.get((sort, reverse))
        if statement is None:
            raise UsageError(
                f"there is no order {sort!r}", remedy=("--sort updated|due|admitted|took",)
            )
        return self._records(statement, bindings)

    def _latest(self, bindings: dict[str, Any]) -> list[ExecutionRecord]:
        """Unfinished ones first, then the others, the latest of each first."""
        limit, offset = bindings["limit"], bindings["offset"]
        found = self._records(UNFINISHED, bindings)
        if 0 <= limit == len(found):
            return found
        unfinished = self._db.rows(COUNT_UNFINISHED, bindings)[0][0] if offset else 0
        rest = {
            "limit": limit if limit < 0 else limit - len(found),
            "offset": max(0, offset - unfinished),
        }
        return found + self._records(FINISHED, bindings | rest)

    def _records(self, statement: str, bindings: dict[str, Any]) -> list[ExecutionRecord]:
        return [records.record(row) for row in self._db.rows(statement, bindings)]

    def counts(self, workflow_id: str | None = None, *, pruned: bool = True) -> dict[str, int]:
        """See `contract.Reader.counts`."""
        bindings = {"workflow_id": workflow_id}
        counts = {str(status): int(count) for status, count in self._db.rows(COUNTS, bindings)}
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
