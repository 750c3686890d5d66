"""Where `find` looks: the statements of lists, each from the index that its question needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import joined

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
# The usual list, unfinished ones first: each part is read in the order of an index of its own,
# and no further than the page goes. Parts that the question rules out are not read at all.
_LEFT_WORKERS = "LEFT JOIN workers AS w ON w.n = e.claimed_by"
_OPEN = joined(
    "FROM executions AS e INDEXED BY executions_open",
    _LEFT_WORKERS,
    _FILTERED,
    "AND e.status IN ('admitted', 'suspended')",
)
_ENDED = joined(
    "FROM executions AS e INDEXED BY executions_ended",
    _LEFT_WORKERS,
    _FILTERED,
    "AND e.status IN ('completed', 'failed', 'cancelled')",
)
_UNWELL = joined(
    "FROM executions AS e INDEXED BY executions_unwell",
    _LEFT_WORKERS,
    _FILTERED,
    "AND e.status IN ('failed', 'cancelled')",
)
# Of these there are few, so they are found first and put in order then.
_CLAIMED = joined(
    "FROM executions AS e INDEXED BY executions_claimed",
    _LEFT_WORKERS,
    _FILTERED,
    "AND e.claimed_by IS NOT NULL",
)
_AWAITING = joined(
    "FROM (SELECT DISTINCT n FROM waits WHERE queue = :awaiting) AS awaiting",
    "CROSS JOIN executions AS e ON e.n = awaiting.n",
    _LEFT_WORKERS,
    _FILTERED,
)


class Part(NamedTuple):
    """A part of the usual list: its records, the latest first, and how many there are."""

    records: str
    counting: str


_COUNT = "SELECT count(*)"
OPEN = Part(joined(records.COLUMNS, _OPEN, _LATEST_FIRST), joined(_COUNT, _OPEN))
ENDED = Part(joined(records.COLUMNS, _ENDED, _LATEST_FIRST), joined(_COUNT, _ENDED))
UNWELL = Part(joined(records.COLUMNS, _UNWELL, _LATEST_FIRST), joined(_COUNT, _UNWELL))
CLAIMED = Part(joined(records.COLUMNS, _CLAIMED, _LATEST_FIRST), joined(_COUNT, _CLAIMED))
AWAITING = Part(joined(records.COLUMNS, _AWAITING, _LATEST_FIRST), joined(_COUNT, _AWAITING))
_OPEN_STATUSES = frozenset({"admitted", "suspended"})
_UNWELL_STATUSES = frozenset({"failed", "cancelled"})
STATUSES = _OPEN_STATUSES | _UNWELL_STATUSES | {"completed"}
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
# In the order of admission, whatever the clock did meanwhile: that of the numbers.
_NEWEST = "ORDER BY e.n DESC"
_OLDEST = "ORDER BY e.n"
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


def parts_of(bindings: Mapping[str, Any], wanted: frozenset[str]) -> list[Part]:
    """Where the records that are asked for can be, unfinished ones first."""
    if bindings["awaiting"] is not None:
        return [AWAITING]
    if bindings["running"]:
        return [CLAIMED]
    parts = [OPEN] if wanted & _OPEN_STATUSES else []
    ended = wanted - _OPEN_STATUSES
    # What has ended is not due, and waits for nothing.
    if ended and not bindings["waiting"] and bindings["due_by"] is None:
        parts.append(UNWELL if ended <= _UNWELL_STATUSES else ENDED)
    return parts
