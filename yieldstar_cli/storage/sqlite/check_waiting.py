"""Rules about going on: whatever is open is due, in a worker's hands, or waits for something."""

from __future__ import annotations

from yieldstar_cli.storage.sqlite.check_rules import AT_MOST, CANCEL, ENDED, OPEN, WAKE, Rule, Rules
from yieldstar_cli.storage.sqlite.database import joined

_STUCK = "It will not go on by itself."
_UNTOLD = "It waits for something that has happened, and nobody has told it."

# Nobody has claimed it and nothing will: what is to move it must be there.
_IDLE = joined("e.claimed_by IS NULL AND e.due_at IS NULL AND e.status IN", OPEN)

NEVER_DUE = joined(
    "SELECT e.execution_id FROM executions AS e WHERE e.status = 'admitted' AND",
    _IDLE,
    AT_MOST,
)
CLAIM_OF_NOBODY = joined(
    """
SELECT e.execution_id, ifnull(w.name, e.claimed_by)
  FROM executions AS e
  LEFT JOIN workers AS w ON w.n = e.claimed_by
 WHERE e.claimed_by IS NOT NULL
   AND (w.n IS NULL OR (w.n > 0 AND w.stopped_at IS NOT NULL))
""",
    AT_MOST,
)
# A suspended one is due at its earliest timer, or before.
TIMER_WITHOUT_WAKE = joined(
    """
SELECT e.execution_id, w.step_key
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
 WHERE w.due_at IS NOT NULL
   AND e.claimed_by IS NULL
   AND (e.due_at IS NULL OR e.due_at > w.due_at)
   AND e.status IN
""",
    OPEN,
    AT_MOST,
)
READY_WITHOUT_WAKE = joined(
    """
SELECT e.execution_id, w.step_key
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
 WHERE w.ready_at IS NOT NULL AND
""",
    _IDLE,
    AT_MOST,
)
MESSAGE_WITHOUT_WAKE = joined(
    """
SELECT e.execution_id, w.queue
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
 WHERE w.queue IS NOT NULL
   AND EXISTS (SELECT 1 FROM messages AS m
                WHERE m.n = w.n AND m.queue = w.queue AND m.state = 'waiting')
   AND
""",
    _IDLE,
    AT_MOST,
)
CANCEL_WITHOUT_WAKE = joined(
    """
SELECT e.execution_id
  FROM executions AS e
 WHERE e.cancel_at IS NOT NULL AND NOT e.cancel_told AND
""",
    _IDLE,
    AT_MOST,
)
STEP_WITHOUT_WAKE = joined(
    """
SELECT e.execution_id, w.step_key
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
 WHERE w.kind IN ('step', 'poll', 'defer')
   AND w.due_at IS NULL
   AND e.needs IS NULL
   AND
""",
    _IDLE,
    AT_MOST,
)
END_UNTOLD = joined(
    """
SELECT e.execution_id, w.step_key, t.execution_id
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
  JOIN executions AS t ON t.n = w.target_n
 WHERE w.ready_at IS NULL
   AND t.status IN
""",
    ENDED,
    AT_MOST,
)
WAIT_FOR_NOBODY = joined(
    """
SELECT e.execution_id, w.step_key, w.target
  FROM waits AS w
  JOIN executions AS e ON e.n = w.n
  LEFT JOIN executions AS t ON t.n = w.target_n
 WHERE w.target IS NOT NULL
   AND (w.ready_at IS NULL OR w.target_n IS NOT NULL)
   AND t.execution_id IS NOT w.target
""",
    AT_MOST,
)

RULES: Rules = (
    Rule(
        "NEVER_DUE",
        NEVER_DUE,
        "it was admitted, and no wake stands for its first delivery",
        _STUCK,
        WAKE,
    ),
    Rule(
        "CLAIM_OF_NOBODY",
        CLAIM_OF_NOBODY,
        "its delivery is in the hands of worker {}, which is gone",
        f"{_STUCK} Whoever ended the worker should have taken its deliveries back.",
        CANCEL,
    ),
    Rule(
        "TIMER_WITHOUT_WAKE",
        TIMER_WITHOUT_WAKE,
        "no wake stands for the moment of {}",
        "It sleeps past that moment.",
        WAKE,
    ),
    Rule(
        "READY_WITHOUT_WAKE",
        READY_WITHOUT_WAKE,
        "{} is ready, and no wake stands for it",
        _UNTOLD,
        WAKE,
    ),
    Rule(
        "MESSAGE_WITHOUT_WAKE",
        MESSAGE_WITHOUT_WAKE,
        "it waits on the queue {}, where a message is, and no wake stands for it",
        _UNTOLD,
        WAKE,
    ),
    Rule(
        "CANCEL_WITHOUT_WAKE",
        CANCEL_WITHOUT_WAKE,
        "somebody asked for its cancellation, and no wake stands for telling it",
        _UNTOLD,
        WAKE,
    ),
    Rule(
        "STEP_WITHOUT_WAKE",
        STEP_WITHOUT_WAKE,
        "{} is to run, and no wake stands for it",
        _STUCK,
        WAKE,
    ),
    Rule(
        "END_UNTOLD",
        END_UNTOLD,
        "{} waits for {}, which has ended, and is not marked as ready",
        "It waits for ever: a look reads marked waits only.",
        CANCEL,
    ),
    Rule(
        "WAIT_FOR_NOBODY",
        WAIT_FOR_NOBODY,
        "{} waits for {}, and the number that it keeps is of no such execution",
        "It waits for ever, or for another execution than it says.",
        CANCEL,
    ),
)
