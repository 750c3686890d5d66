"""Rules about histories: each operation once, in order, and none missing."""

from __future__ import annotations

from yieldstar_cli.storage.sqlite.check_rules import (
    AT_MOST,
    OPEN,
    REPORT,
    RESTORE,
    SHOW,
    Rule,
    Rules,
)
from yieldstar_cli.storage.sqlite.database import joined

_REPLAY = "A replay answers it otherwise than the function was answered."

TWICE = joined(
    """
SELECT e.execution_id, h.kind, h.step_key, count(*)
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
 GROUP BY h.n, h.incarnation, h.kind, h.step_key
HAVING count(*) > 1
""",
    AT_MOST,
)
RESOLVED_AND_OPEN = joined(
    """
SELECT e.execution_id, o.kind, o.step_key
  FROM (SELECT n, kind, step_key FROM waits
        UNION SELECT n, kind, step_key FROM retries) AS o
  JOIN executions AS e ON e.n = o.n
  JOIN history AS h
    ON h.n = o.n AND h.incarnation = e.incarnation
   AND h.kind = o.kind AND h.step_key = o.step_key
""",
    AT_MOST,
)
# Positions are unique, so as many as there are up to the last one means that none is missing.
GAP = joined(
    """
SELECT e.execution_id, e.incarnation, e.operations, count(h.position)
  FROM executions AS e
  LEFT JOIN history AS h ON h.n = e.n AND h.incarnation = e.incarnation
 WHERE e.pruned_at IS NULL
 GROUP BY e.n
HAVING count(h.position) <> e.operations
    OR ifnull(max(h.position), -1) <> e.operations - 1
    OR ifnull(min(h.position), 0) <> 0
""",
    AT_MOST,
)
GAP_BEFORE = joined(
    """
SELECT e.execution_id, i.incarnation, i.operations, count(h.position)
  FROM incarnations AS i
  JOIN executions AS e ON e.n = i.n AND e.pruned_at IS NULL
  LEFT JOIN history AS h ON h.n = i.n AND h.incarnation = i.incarnation
 GROUP BY i.n, i.incarnation
HAVING count(h.position) <> i.operations
    OR ifnull(max(h.position), -1) <> i.operations - 1
    OR ifnull(min(h.position), 0) <> 0
""",
    AT_MOST,
)
# The last three that ended are kept.
INCARNATIONS = joined(
    """
SELECT e.execution_id, e.incarnation
  FROM executions AS e
  LEFT JOIN incarnations AS i ON i.n = e.n
 WHERE e.pruned_at IS NULL AND (e.incarnation > 1 OR i.n IS NOT NULL)
 GROUP BY e.n
HAVING count(i.incarnation) <> min(3, e.incarnation - 1)
    OR max(i.incarnation) <> e.incarnation - 1
    OR min(i.incarnation) <> max(1, e.incarnation - 3)
""",
    AT_MOST,
)
MOMENTS = joined(
    """
SELECT execution_id, step_key
  FROM (SELECT e.execution_id, h.step_key, h.at, h.kind, h.started_at, e.last_moment,
               lag(h.at) OVER (PARTITION BY h.n ORDER BY h.incarnation, h.position) AS before_at
          FROM history AS h
          JOIN executions AS e ON e.n = h.n)
 WHERE at < before_at
    OR at > last_moment
    OR last_moment IS NULL
    OR (started_at > at AND kind NOT IN ('step', 'poll', 'defer'))
""",
    AT_MOST,
)
ATTEMPTS = joined(
    """
SELECT e.execution_id, r.step_key, r.attempts
  FROM retries AS r
  JOIN executions AS e ON e.n = r.n
 WHERE r.attempts < 1
    OR r.errors NOT BETWEEN 0 AND r.attempts
    OR r.attempts IS NOT (SELECT max(a.attempt) FROM attempts AS a
                           WHERE a.n = r.n AND a.incarnation = r.incarnation
                             AND a.kind = r.kind AND a.step_key = r.step_key)
""",
    AT_MOST,
)
ATTEMPTS_OF_RESOLVED = joined(
    """
SELECT e.execution_id, h.step_key, h.attempt, ifnull(max(a.attempt), 0)
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
  LEFT JOIN attempts AS a
    ON a.n = h.n AND a.incarnation = h.incarnation AND a.kind = h.kind AND a.step_key = h.step_key
 WHERE h.kind IN ('step', 'poll', 'defer')
 GROUP BY h.n, h.incarnation, h.position
HAVING h.attempt - ifnull(max(a.attempt), 0) NOT IN (0, 1) OR h.attempt < 1
""",
    AT_MOST,
)
ENTRY_VALUES = joined(
    """
SELECT e.execution_id, h.step_key
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
 WHERE NOT json_valid(h.value)
""",
    AT_MOST,
)
# Rows that no record owns.
_OWNED = "(SELECT n FROM executions)"
WITHOUT_RECORD = joined(
    "SELECT NULL, what, n FROM (SELECT 'history' AS what, n FROM history WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'retries', n FROM retries WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'attempts', n FROM attempts WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'waits', n FROM waits WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'logs', n FROM logs WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'lost_deliveries', n FROM lost_deliveries WHERE n NOT IN",
    _OWNED,
    "UNION SELECT 'incarnations', n FROM incarnations WHERE n NOT IN",
    _OWNED,
    # Buffered ones have an ID instead; and NULL is in no list, not even in an empty one.
    "UNION SELECT 'messages', n FROM messages WHERE n IS NOT NULL AND n NOT IN",
    _OWNED,
    ")",
    AT_MOST,
)
OF_NO_INCARNATION = joined(
    """
SELECT DISTINCT e.execution_id, h.incarnation
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
 WHERE h.incarnation <> e.incarnation
   AND e.pruned_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM incarnations AS i
                    WHERE i.n = h.n AND i.incarnation = h.incarnation)
""",
    AT_MOST,
)
PRUNED_AND_THERE = joined(
    """
SELECT e.execution_id
  FROM executions AS e
 WHERE e.pruned_at IS NOT NULL
   AND (e.status IN
""",
    OPEN,
    """
        OR (e.operations = 0
            AND (EXISTS (SELECT 1 FROM history WHERE n = e.n)
                 OR EXISTS (SELECT 1 FROM attempts WHERE n = e.n)
                 OR EXISTS (SELECT 1 FROM logs WHERE n = e.n)
                 OR EXISTS (SELECT 1 FROM incarnations WHERE n = e.n)
                 OR EXISTS (SELECT 1 FROM messages WHERE n = e.n))))
""",
    AT_MOST,
)

RULES: Rules = (
    Rule(
        "RECORDED_TWICE",
        TWICE,
        "{} {} is recorded {} times in one incarnation",
        "A replay is given the first; whatever came of the others was done twice.",
        REPORT,
    ),
    Rule(
        "RECORDED_AND_OPEN",
        RESOLVED_AND_OPEN,
        "{} {} is recorded, and stands as open as well",
        "It may be done a second time.",
        REPORT,
    ),
    Rule(
        "HISTORY_GAP",
        GAP,
        "incarnation {} counts {} resolutions, and {} are there, or not in one row",
        _REPLAY,
        SHOW,
    ),
    Rule(
        "HISTORY_GAP",
        GAP_BEFORE,
        "its earlier incarnation {} counts {} resolutions, and {} are there",
        "What is shown of that incarnation is not what happened.",
        REPORT,
    ),
    Rule(
        "INCARNATIONS",
        INCARNATIONS,
        "of the incarnations before its {}. others are kept than the last three",
        "What is shown of them is not all that is promised.",
        REPORT,
    ),
    Rule(
        "MOMENTS",
        MOMENTS,
        "the moment of {} is before that of a resolution ahead of it",
        "step.now() goes back, and timers counted from it are early.",
        REPORT,
    ),
    Rule(
        "ATTEMPTS",
        ATTEMPTS,
        "{} counts {} attempts, and others are recorded",
        "It is tried more often, or less often, than its policy says.",
        SHOW,
    ),
    Rule(
        "ATTEMPTS",
        ATTEMPTS_OF_RESOLVED,
        "{} ended at attempt {}, and the last one before it was {}",
        "It was tried more often, or less often, than its history says.",
        REPORT,
    ),
    Rule(
        "VALUES",
        ENTRY_VALUES,
        "the value of {} is not JSON",
        "What was recorded is damaged: a replay cannot go past it.",
        SHOW,
        slow=True,
    ),
    Rule(
        "WITHOUT_RECORD",
        WITHOUT_RECORD,
        "rows of {} belong to number {}, and there is no such execution",
        "Nothing reads them. A record may have been lost.",
        RESTORE,
    ),
    Rule(
        "OF_NO_INCARNATION",
        OF_NO_INCARNATION,
        "resolutions of incarnation {} are there, which is neither the present one nor kept",
        "Nothing reads them.",
        REPORT,
    ),
    Rule(
        "PRUNED_AND_THERE",
        PRUNED_AND_THERE,
        "it was pruned, and is open or has a history",
        "What was to be forgotten is still there, or what is needed is gone.",
        REPORT,
    ),
)
