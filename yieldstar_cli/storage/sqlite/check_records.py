"""Rules about one record: its status, tokens, holds and outcome say one thing."""

from __future__ import annotations

from yieldstar_cli.storage.sqlite.check_rules import AT_MOST, ENDED, REPORT, SHOW, Rule, Rules
from yieldstar_cli.storage.sqlite.database import joined

ENDED_NOT_QUIET = joined(
    """
SELECT execution_id, status
  FROM executions
 WHERE (due_at IS NOT NULL OR covered_due_at IS NOT NULL OR claimed_by IS NOT NULL
        OR needs IS NOT NULL OR needs_since IS NOT NULL OR held_since IS NOT NULL
        OR poisoned_at IS NOT NULL OR paused IS NOT NULL)
   AND status IN
""",
    ENDED,
    AT_MOST,
)
ENDED_WITH_WAITS = joined(
    """
SELECT execution_id, status
  FROM executions AS e
 WHERE (EXISTS (SELECT 1 FROM waits WHERE n = e.n)
        OR EXISTS (SELECT 1 FROM retries WHERE n = e.n))
   AND status IN
""",
    ENDED,
    AT_MOST,
)
OUTCOME_AND_STATUS = joined(
    """
SELECT execution_id, status, iif(outcome IS NULL, 'none', 'one')
  FROM executions
 WHERE (outcome IS NULL) = (status IN
""",
    ENDED,
    ")",
    AT_MOST,
)
TOKENS = joined(
    """
SELECT execution_id, token, acked_token, progress_token
  FROM executions AS e
 WHERE token < 0
    OR acked_token NOT BETWEEN 0 AND token
    OR progress_token NOT BETWEEN 0 AND token
    OR (claimed_by IS NOT NULL AND token <= acked_token)
    OR EXISTS (SELECT 1 FROM lost_deliveries AS l
                WHERE l.n = e.n AND (l.token > e.token OR l.token < 1))
""",
    AT_MOST,
)
# What a status says of the deliveries before it. Only a cancellation at once needs none.
STATUS_UNEARNED = joined(
    """
SELECT execution_id, status, acked_token, token
  FROM executions
 WHERE CASE status
           WHEN 'admitted' THEN acked_token <> 0 OR incarnation <> 1
           WHEN 'suspended' THEN acked_token = 0
           WHEN 'cancelled' THEN 0
           ELSE acked_token = 0 OR acked_token <> token
       END
    OR (acked_token > 0 AND acked_at IS NULL)
    OR (token = 0 AND (started_at IS NOT NULL OR (operations > 0 AND pruned_at IS NULL)))
    OR (token > 0 AND claimed_at IS NULL)
""",
    AT_MOST,
)
COVERED_AND_CLAIMED = joined(
    """
SELECT execution_id
  FROM executions
 WHERE (covered_due_at IS NULL) <> (claimed_by IS NULL)
""",
    AT_MOST,
)
HOLDS = joined(
    """
SELECT execution_id
  FROM executions
 WHERE (held_since IS NULL) <> (held_code IS NULL)
    OR (held_since IS NULL AND held_until IS NOT NULL)
    OR (held_since IS NOT NULL AND claimed_by IS NOT NULL)
    OR (poisoned_at IS NOT NULL AND (claimed_by IS NOT NULL OR deaths = 0))
    OR (needs IS NULL) <> (needs_since IS NULL)
    OR (cancel_told AND cancel_at IS NULL)
""",
    AT_MOST,
)
DEATHS = joined(
    """
SELECT execution_id, deaths, token
  FROM executions AS e
 WHERE deaths NOT BETWEEN 0 AND token
    OR (SELECT count(*) FROM lost_deliveries WHERE n = e.n) > min(token, 20)
""",
    AT_MOST,
)
# Of a damaged or a hostile file: no number of ours is outside of these.
MOMENTS_OF_RECORD = joined(
    """
SELECT execution_id
  FROM executions
 WHERE updated_at < admitted_at
    OR admitted_at NOT BETWEEN 0 AND 253402300799999
    OR updated_at > 253402300799999
    OR ifnull(due_at, 0) NOT BETWEEN 0 AND 253402300799999
    OR ifnull(covered_due_at, 0) NOT BETWEEN 0 AND 253402300799999
    OR incarnation < 1
    OR version < 1
    OR format < 1
    OR operations < 0
""",
    AT_MOST,
)
VALUES = joined(
    """
SELECT execution_id,
       CASE WHEN NOT json_valid(params) THEN 'params'
            WHEN NOT json_valid(context) THEN 'context'
            WHEN NOT json_valid(ifnull(outcome, '0')) THEN 'outcome'
            ELSE 'status value' END
  FROM executions
 WHERE NOT (json_valid(params) AND json_valid(context) AND json_valid(ifnull(outcome, '0'))
            AND json_valid(ifnull(status_value, '0')))
""",
    AT_MOST,
)

RULES: Rules = (
    Rule(
        "ENDED_NOT_QUIET",
        ENDED_NOT_QUIET,
        "it is {}, and a wake, a claim, a hold or a pause stands for it",
        "What has ended asks for nothing; it may be taken up again.",
        REPORT,
    ),
    Rule(
        "ENDED_WITH_WAITS",
        ENDED_WITH_WAITS,
        "it is {}, and operations of it stand as open",
        "What has ended waits for nothing; a message or an end may be spent on it.",
        REPORT,
    ),
    Rule(
        "OUTCOME_AND_STATUS",
        OUTCOME_AND_STATUS,
        "it is {}, and has {} outcome",
        "An outcome belongs to what has ended, and to nothing else.",
        REPORT,
    ),
    Rule(
        "TOKENS",
        TOKENS,
        "its tokens contradict each other: last claim {}, acknowledged {}, recorded {}",
        "Tokens keep a worker that was superseded from writing; these do not.",
        REPORT,
    ),
    Rule(
        "STATUS_UNEARNED",
        STATUS_UNEARNED,
        "it is {}, and its deliveries could not lead there (acknowledged {} of {})",
        "Its status was not reached by any delivery.",
        SHOW,
    ),
    Rule(
        "COVERED_AND_CLAIMED",
        COVERED_AND_CLAIMED,
        "the wakes that a delivery covers and the delivery do not go together",
        "A wake may be lost, or never come to an end.",
        REPORT,
    ),
    Rule(
        "HOLDS",
        HOLDS,
        "its marks (hold, poison, needed tags, cancellation) contradict each other",
        "It may be kept from going on, or go on when it should not.",
        SHOW,
    ),
    Rule(
        "DEATHS",
        DEATHS,
        "{} deaths and lost deliveries are more than its {} claims allow",
        "It may be parked as poisoned too early or too late.",
        SHOW,
    ),
    Rule(
        "MOMENTS_OF_RECORD",
        MOMENTS_OF_RECORD,
        "a moment or a number of its record cannot be",
        "It may be delivered at a wrong time, or by no worker at all.",
        SHOW,
    ),
    Rule(
        "VALUES",
        VALUES,
        "its {} is not JSON",
        "What was stored is damaged: it cannot be read any more.",
        SHOW,
        slow=True,
    ),
)
