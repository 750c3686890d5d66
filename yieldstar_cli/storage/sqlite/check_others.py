"""Rules between executions, and about stores: messages, children, versions."""

from __future__ import annotations

from yieldstar_cli.storage.sqlite.check_rules import (
    AT_MOST,
    CANCEL,
    ENDED,
    OPEN,
    REPORT,
    SHOW,
    Rule,
    Rules,
)
from yieldstar_cli.storage.sqlite.database import joined

MESSAGE_SHAPE = joined(
    """
SELECT e.execution_id, m.queue, m.state
  FROM messages AS m
  LEFT JOIN executions AS e ON e.n = m.n
 WHERE (m.state IN ('consumed', 'invalid')) <> (m.consumed_at IS NOT NULL)
    OR (m.state = 'waiting' AND (m.n IS NULL OR m.expires_at IS NOT NULL))
    OR (m.state = 'buffered' AND m.execution_id IS NULL)
    OR (m.state IN ('buffered', 'expired') AND m.expires_at IS NULL)
    OR (m.n IS NULL) = (m.execution_id IS NULL)
""",
    AT_MOST,
)
MESSAGE_LEFT_BEHIND = joined(
    """
SELECT e.execution_id, m.queue
  FROM messages AS m
  JOIN executions AS e ON e.execution_id = m.execution_id
""",
    AT_MOST,
)
# Queues are first in, first out: what was sent before is read before.
OUT_OF_TURN = joined(
    """
SELECT e.execution_id, m.queue
  FROM messages AS m
  JOIN executions AS e ON e.n = m.n
 GROUP BY m.n, m.queue
HAVING min(m.m) FILTER (WHERE m.state = 'waiting')
       < max(m.m) FILTER (WHERE m.state IN ('consumed', 'invalid'))
""",
    AT_MOST,
)
CHILD_LOST = joined(
    """
SELECT e.execution_id, h.step_key, h.label
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
  LEFT JOIN executions AS c ON c.execution_id = h.label
 WHERE h.kind = 'start' AND h.ok AND c.parent IS NOT h.n
""",
    AT_MOST,
)
# While no incarnation of the parent is forgotten, every child's start is recorded there.
CHILD_UNSTARTED = joined(
    """
SELECT c.execution_id, p.execution_id
  FROM executions AS c
  JOIN executions AS p ON p.n = c.parent
 WHERE p.pruned_at IS NULL
   AND p.incarnation <= 4
   AND NOT EXISTS (SELECT 1 FROM history AS h
                    WHERE h.n = p.n AND h.kind = 'start' AND h.ok AND h.label = c.execution_id)
""",
    AT_MOST,
)
PARENT_WRONG = joined(
    """
SELECT c.execution_id, c.parent
  FROM executions AS c
  LEFT JOIN executions AS p ON p.n = c.parent
 WHERE c.parent IS NOT NULL AND (p.n IS NULL OR p.n >= c.n)
""",
    AT_MOST,
)
CHILD_OUTCOME = joined(
    """
SELECT e.execution_id, h.step_key, h.label
  FROM history AS h
  JOIN executions AS e ON e.n = h.n
  LEFT JOIN executions AS c ON c.execution_id = h.label
 WHERE h.kind = 'child' AND h.ok
   AND (c.status IS NOT 'completed' OR (c.pruned_at IS NULL AND c.outcome IS NOT h.value))
""",
    AT_MOST,
)
CHILD_NOT_ASKED = joined(
    """
SELECT c.execution_id, p.execution_id, p.status
  FROM executions AS c
  JOIN executions AS p ON p.n = c.parent
 WHERE NOT c.detached AND c.cancel_at IS NULL
   AND c.status IN
""",
    OPEN,
    "AND p.status IN",
    ENDED,
    AT_MOST,
)
STORE_SHAPE = joined(
    """
SELECT NULL, name, store_id
  FROM stores AS s
 WHERE version < 0
    OR updated_at < created_at
    OR EXISTS (SELECT 1 FROM stores AS o WHERE o.instance = s.instance AND o.s < s.s)
""",
    AT_MOST,
)
# An update's entry says which version it made: each is made once, and none before its time.
_MADE = """
  FROM (SELECT h.n, h.step_key, h.label, h.value ->> 'instance' AS instance,
               h.value ->> 'version' AS version
          FROM history AS h
         WHERE h.kind = 'store-update' AND h.ok AND json_valid(h.value)) AS u
  JOIN executions AS e ON e.n = u.n
"""
STORE_AHEAD = joined(
    "SELECT e.execution_id, u.label, u.version, s.version",
    _MADE,
    "JOIN stores AS s ON s.instance = u.instance WHERE u.version > s.version",
    AT_MOST,
)
STORE_TWICE = joined(
    "SELECT min(e.execution_id), u.label, u.version, count(*)",
    _MADE,
    "WHERE u.instance IS NOT NULL GROUP BY u.instance, u.version HAVING count(*) > 1",
    AT_MOST,
)
STORE_VALUES = joined(
    "SELECT NULL, name, store_id FROM stores WHERE NOT json_valid(state)", AT_MOST
)
MESSAGE_VALUES = joined(
    """
SELECT ifnull(e.execution_id, m.execution_id), m.queue
  FROM messages AS m
  LEFT JOIN executions AS e ON e.n = m.n
 WHERE NOT json_valid(m.value)
""",
    AT_MOST,
)

RULES: Rules = (
    Rule(
        "MESSAGE_SHAPE",
        MESSAGE_SHAPE,
        "a message in the queue {} is {}, and its moments say otherwise",
        "It may be read twice, or never.",
        "ys messages {}",
    ),
    Rule(
        "MESSAGE_LEFT_BEHIND",
        MESSAGE_LEFT_BEHIND,
        "a message that was sent ahead to the queue {} did not reach it at its admission",
        "It is never read. Send it again.",
        "ys messages {}",
    ),
    Rule(
        "OUT_OF_TURN",
        OUT_OF_TURN,
        "in the queue {} a message was read before one that was sent earlier",
        "Queues are first in, first out; this one was not.",
        "ys messages {}",
    ),
    Rule(
        "PARENT_WRONG",
        PARENT_WRONG,
        "its parent, number {}, is not there or younger than itself",
        "Its end reaches nobody.",
        REPORT,
    ),
    Rule(
        "CHILD_LOST",
        CHILD_LOST,
        "{} started {}, and there is no such child of it",
        "It waits for what does not run.",
        SHOW,
    ),
    Rule(
        "CHILD_UNSTARTED",
        CHILD_UNSTARTED,
        "it is a child of {}, which has no record of starting it",
        "Its parent may start it once more, under another ID.",
        REPORT,
    ),
    Rule(
        "CHILD_OUTCOME",
        CHILD_OUTCOME,
        "{} was answered with the result of {}, and that one's record says otherwise",
        "Parent and child disagree about how the child ended.",
        REPORT,
    ),
    Rule(
        "CHILD_NOT_ASKED",
        CHILD_NOT_ASKED,
        "its parent {} is {}, and nobody asked it to end",
        "It goes on although it is not detached.",
        CANCEL,
    ),
    Rule(
        "STORE_SHAPE",
        STORE_SHAPE,
        "store {} {!r} has a version or an instance that cannot be",
        "A change computed from it may overwrite another one.",
        "ys store list",
    ),
    Rule(
        "STORE_VERSIONS",
        STORE_AHEAD,
        "its update of store {} made version {}, and the store is at {}",
        "A change that was recorded is not in the store.",
        "ys store list",
    ),
    Rule(
        "STORE_VERSIONS",
        STORE_TWICE,
        "version {1} of store {0} was made {2} times",
        "Of two changes one has overwritten the other.",
        "ys store list",
    ),
    Rule(
        "VALUES",
        STORE_VALUES,
        "the state of store {} {!r} is not JSON",
        "What was stored is damaged: it cannot be read any more.",
        "ys store list",
        slow=True,
    ),
    Rule(
        "VALUES",
        MESSAGE_VALUES,
        "a message in the queue {} is not JSON",
        "What was sent is damaged: it cannot be read any more.",
        "ys messages {}",
        slow=True,
    ),
)
