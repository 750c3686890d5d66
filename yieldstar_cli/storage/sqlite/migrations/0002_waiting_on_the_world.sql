-- Schema 2: children, messages, cancel, pause, tags, earlier incarnations.
-- The record is rebuilt, since its derived columns and the order of its columns change.

CREATE TABLE executions_2 (
    n               INTEGER PRIMARY KEY,
    execution_id    TEXT    NOT NULL UNIQUE,
    workflow_id     TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    format          INTEGER NOT NULL,
    status          TEXT    NOT NULL
                    CHECK (status IN ('admitted', 'suspended', 'completed', 'failed', 'cancelled')),
    admitted_at     INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    admission_nonce BLOB    NOT NULL,
    seed            BLOB    NOT NULL,

    -- wakes: the earliest that no delivery covers, and what the open delivery covers
    due_at          INTEGER,
    covered_due_at  INTEGER,

    -- the last claim (token counts them), the last acknowledged one, the last that recorded something
    token           INTEGER NOT NULL DEFAULT 0,
    acked_token     INTEGER NOT NULL DEFAULT 0,
    progress_token  INTEGER NOT NULL DEFAULT 0,
    -- the worker whose lease the open delivery stands under; NULL when no delivery is open
    claimed_by      INTEGER,
    claimed_at      INTEGER,
    acked_at        INTEGER,
    last_worker     TEXT,
    -- what has happened for the open delivery since its claim; a look answers it (R10)
    nudged          INTEGER NOT NULL DEFAULT 0,

    -- a hold (E12): held_until NULL means until an event; held_module: code it was tried with
    held_since      INTEGER,
    held_until      INTEGER,
    held_code       TEXT,
    held_module     TEXT,
    deaths          INTEGER NOT NULL DEFAULT 0,
    poisoned_at     INTEGER,

    incarnation     INTEGER NOT NULL DEFAULT 1,
    started_at      INTEGER,
    -- resolutions in this incarnation, and the moment of the last one of all
    operations      INTEGER NOT NULL DEFAULT 0,
    last_moment     INTEGER,

    -- who started it; a detached child goes on when its parent ends (C4)
    parent          INTEGER,
    detached        INTEGER NOT NULL DEFAULT 0,
    -- a request to cancel (C6), and whether a delivery has recorded it
    cancel_at       INTEGER,
    cancel_told     INTEGER NOT NULL DEFAULT 0,
    -- the mark of a pause, JSON (E14)
    paused          TEXT,
    -- tags, JSON: a worker with one of them may go on from here at once (O5)
    needs           TEXT,
    needs_since     INTEGER,

    -- What may be long stands last, so that nothing else is read past it.
    cancel_reason   TEXT,
    status_value    TEXT,
    problem         TEXT,
    params          TEXT    NOT NULL,
    context         TEXT    NOT NULL,
    -- completed: the result; failed: the error; cancelled: the reason
    outcome         TEXT,

    -- From when it may be claimed; NULL while it may not. Derived, so it cannot disagree.
    claim_at        INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN claimed_by IS NOT NULL OR poisoned_at IS NOT NULL OR paused IS NOT NULL
                 OR due_at IS NULL THEN NULL
            WHEN held_since IS NULL THEN due_at
            WHEN held_until IS NULL THEN NULL
            ELSE max(due_at, held_until)
        END
    ) VIRTUAL,
    -- The same for a worker that has one of the tags it needs.
    tagged_at       INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN claimed_by IS NOT NULL OR poisoned_at IS NOT NULL OR paused IS NOT NULL
                 OR needs_since IS NULL THEN NULL
            WHEN held_since IS NULL THEN needs_since
            WHEN held_until IS NULL THEN NULL
            ELSE max(needs_since, held_until)
        END
    ) VIRTUAL,
    CHECK (length(CAST(execution_id AS BLOB)) BETWEEN 1 AND 255),
    CHECK ((needs IS NULL) = (needs_since IS NULL)),
    CHECK (status NOT IN ('completed', 'failed', 'cancelled')
           OR (due_at IS NULL AND covered_due_at IS NULL AND claimed_by IS NULL AND needs IS NULL)),
    CHECK ((outcome IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled')))
) STRICT;

INSERT INTO executions_2 (
    n, execution_id, workflow_id, version, format, status, admitted_at, updated_at,
    admission_nonce, seed, due_at, covered_due_at, token, acked_token, progress_token, claimed_by,
    claimed_at, acked_at, last_worker, held_since, held_until, held_code, held_module, deaths,
    poisoned_at, incarnation, started_at, operations, last_moment, status_value, problem, params,
    context, outcome)
SELECT n, execution_id, workflow_id, version, format, status, admitted_at, updated_at,
       admission_nonce, seed, due_at, covered_due_at, token, acked_token, progress_token,
       claimed_by, claimed_at, acked_at, last_worker, held_since, held_until, held_code,
       held_module, deaths, poisoned_at, incarnation, started_at, operations, last_moment,
       status_value, problem, params, context, outcome
  FROM executions;
DROP TABLE executions;
ALTER TABLE executions_2 RENAME TO executions;

-- What may be claimed, oldest first; the names make a claim of some workflows an index-only scan.
CREATE INDEX executions_claimable ON executions (claim_at, n, workflow_id, version, format, deaths)
    WHERE claim_at IS NOT NULL;
CREATE INDEX executions_tagged ON executions (tagged_at, n, workflow_id, version, format, deaths)
    WHERE tagged_at IS NOT NULL;
-- Claims of a dead worker, and whether any delivery is open.
CREATE INDEX executions_claimed ON executions (claimed_by) WHERE claimed_by IS NOT NULL;
-- Open deliveries that are to look again.
CREATE INDEX executions_nudged ON executions (claimed_by)
    WHERE claimed_by IS NOT NULL AND nudged > 0;
-- `ys list`: the latest first, unfinished ones apart.
CREATE INDEX executions_listed ON executions (updated_at);
CREATE INDEX executions_open ON executions (updated_at)
    WHERE status IN ('admitted', 'suspended');
CREATE INDEX executions_held ON executions (held_code) WHERE held_code IS NOT NULL;
CREATE INDEX executions_children ON executions (parent, n) WHERE parent IS NOT NULL;

-- The open operations as of the last round. An execution's end marks the rows that wait for it;
-- messages are found by their queue.
CREATE TABLE waits_2 (
    n           INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    step_key    TEXT    NOT NULL,
    -- the order in which they were named
    position    INTEGER NOT NULL,
    label       TEXT    NOT NULL,
    since_at    INTEGER NOT NULL,
    due_at      INTEGER,
    state       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    queue       TEXT,
    -- the awaited execution, by ID (it need not exist) and by number
    target      TEXT,
    target_n    INTEGER,
    tag         TEXT,
    -- when the awaited execution became terminal; for one that does not exist, when that was seen
    ready_at    INTEGER,
    PRIMARY KEY (n, kind, step_key)
) STRICT, WITHOUT ROWID;
INSERT INTO waits_2 (n, kind, step_key, position, label, since_at, due_at, state, attempt)
SELECT n, kind, step_key, position, label, since_at, due_at, state, attempt FROM waits;
DROP TABLE waits;
ALTER TABLE waits_2 RENAME TO waits;
CREATE INDEX waits_queues ON waits (n, queue) WHERE queue IS NOT NULL;
CREATE INDEX waits_on_queue ON waits (queue) WHERE queue IS NOT NULL;
CREATE INDEX waits_targets ON waits (target_n) WHERE target_n IS NOT NULL;
CREATE INDEX waits_ready ON waits (n) WHERE ready_at IS NOT NULL;

-- Messages in the order sent: FIFO is the order of their numbers (M1).
CREATE TABLE messages (
    m               INTEGER PRIMARY KEY AUTOINCREMENT,
    -- the target's number; while it is not admitted yet, its ID
    n               INTEGER,
    execution_id    TEXT,
    queue           TEXT    NOT NULL,
    state           TEXT    NOT NULL
                    CHECK (state IN ('waiting', 'consumed', 'invalid', 'buffered', 'expired')),
    sent_at         INTEGER NOT NULL,
    expires_at      INTEGER,
    consumed_at     INTEGER,
    idempotency_key TEXT,
    -- what the sender was told
    answer          TEXT    NOT NULL,
    value           TEXT    NOT NULL,
    CHECK ((n IS NULL) <> (execution_id IS NULL)),
    CHECK (n IS NOT NULL OR state IN ('buffered', 'expired'))
) STRICT;
CREATE INDEX messages_unread ON messages (n, queue, m) WHERE state = 'waiting';
CREATE INDEX messages_of ON messages (n, m) WHERE n IS NOT NULL;
CREATE INDEX messages_read ON messages (n, consumed_at, m)
    WHERE state IN ('consumed', 'invalid') AND idempotency_key IS NULL;
CREATE INDEX messages_buffered ON messages (execution_id, m) WHERE execution_id IS NOT NULL;
CREATE INDEX messages_expiring ON messages (expires_at) WHERE execution_id IS NOT NULL;
CREATE UNIQUE INDEX messages_keys ON messages (n, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND n IS NOT NULL;
CREATE UNIQUE INDEX messages_buffered_keys ON messages (execution_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND execution_id IS NOT NULL;

-- Marks on workflows, and on the file (workflow_id '') (E14).
CREATE TABLE pauses (
    workflow_id TEXT    PRIMARY KEY,
    by          TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    reason      TEXT
) STRICT, WITHOUT ROWID;

-- The last earlier incarnations (C7); their history stays with them.
CREATE TABLE incarnations (
    n           INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER NOT NULL,
    operations  INTEGER NOT NULL,
    params      TEXT    NOT NULL,
    PRIMARY KEY (n, incarnation)
) STRICT, WITHOUT ROWID;

ALTER TABLE workers ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
