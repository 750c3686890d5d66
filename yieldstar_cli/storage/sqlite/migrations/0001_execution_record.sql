-- Schema 1. Instants are UTC milliseconds; JSON is text; ids are text at the edge, integers inside.

-- One row: which database this is.
CREATE TABLE file (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    uuid        BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    created_by  TEXT    NOT NULL
) STRICT;

CREATE TABLE executions (
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

    -- What may be long stands last, so that nothing else is read past it.
    status_value    TEXT,
    problem         TEXT,
    params          TEXT    NOT NULL,
    context         TEXT    NOT NULL,
    -- completed: the result; failed: the error; cancelled: the reason
    outcome         TEXT,

    -- From when it may be claimed; NULL while it may not. Derived, so it cannot disagree.
    claim_at        INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN claimed_by IS NOT NULL OR poisoned_at IS NOT NULL OR due_at IS NULL THEN NULL
            WHEN held_since IS NULL THEN due_at
            WHEN held_until IS NULL THEN NULL
            ELSE max(due_at, held_until)
        END
    ) VIRTUAL,
    CHECK (length(CAST(execution_id AS BLOB)) BETWEEN 1 AND 255),
    CHECK (status NOT IN ('completed', 'failed', 'cancelled')
           OR (due_at IS NULL AND covered_due_at IS NULL AND claimed_by IS NULL)),
    CHECK ((outcome IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled')))
) STRICT;

-- What may be claimed, oldest first; the names make a claim of some workflows an index-only scan.
CREATE INDEX executions_claimable ON executions (claim_at, n, workflow_id, version, format, deaths)
    WHERE claim_at IS NOT NULL;
-- Claims of a dead worker, and whether any delivery is open.
CREATE INDEX executions_claimed ON executions (claimed_by) WHERE claimed_by IS NOT NULL;
-- `ys list`: the latest first, unfinished ones apart.
CREATE INDEX executions_listed ON executions (updated_at);
CREATE INDEX executions_open ON executions (updated_at)
    WHERE status IN ('admitted', 'suspended');
CREATE INDEX executions_held ON executions (held_code) WHERE held_code IS NOT NULL;

-- Resolutions in the order applied. The incarnation is in the key from the first day.
CREATE TABLE history (
    n           INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    step_key    TEXT    NOT NULL,
    ok          INTEGER NOT NULL,
    value       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    started_at  INTEGER,
    attempt     INTEGER NOT NULL,
    label       TEXT    NOT NULL,
    withdrawn   INTEGER NOT NULL,
    PRIMARY KEY (n, incarnation, position)
) STRICT, WITHOUT ROWID;

-- Open steps and polls that have used up attempts: one row each, gone with the resolution.
CREATE TABLE retries (
    n           INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    step_key    TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    errors      INTEGER NOT NULL,
    retry_at    INTEGER NOT NULL,
    PRIMARY KEY (n, incarnation, kind, step_key)
) STRICT, WITHOUT ROWID;

-- Ended tries that were not resolutions, for people; the last 20 of each operation.
CREATE TABLE attempts (
    n           INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    step_key    TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    how         TEXT    NOT NULL,
    error       TEXT,
    retry_at    INTEGER NOT NULL,
    PRIMARY KEY (n, incarnation, kind, step_key, attempt)
) STRICT, WITHOUT ROWID;

-- The open operations as of the last round, in the order they were named.
CREATE TABLE waits (
    n           INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    step_key    TEXT    NOT NULL,
    label       TEXT    NOT NULL,
    since_at    INTEGER NOT NULL,
    due_at      INTEGER,
    state       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    PRIMARY KEY (n, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    n           INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    line        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    level       INTEGER NOT NULL,
    text        TEXT    NOT NULL,
    PRIMARY KEY (n, incarnation, line)
) STRICT, WITHOUT ROWID;

-- The last 20 deliveries of an execution that ended without an acknowledgement.
CREATE TABLE lost_deliveries (
    n           INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    how         TEXT    NOT NULL,
    PRIMARY KEY (n, token)
) STRICT, WITHOUT ROWID;

-- Row 0 is the lease of claims made without a worker (RFC 001's redelivery timeout).
CREATE TABLE workers (
    n              INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL,
    host           TEXT    NOT NULL,
    pid            INTEGER NOT NULL,
    slot           INTEGER NOT NULL,
    nonce          BLOB    NOT NULL,
    boot_id        TEXT    NOT NULL,
    device         INTEGER NOT NULL,
    inode          INTEGER NOT NULL,
    started_at     INTEGER NOT NULL,
    lease_until_at INTEGER NOT NULL,
    stopped_at     INTEGER,
    how            TEXT,
    workflows      TEXT    NOT NULL DEFAULT '[]',
    broken         TEXT    NOT NULL DEFAULT '[]',
    alone          INTEGER NOT NULL DEFAULT 0,
    -- the writer's last batch: tells whether a commit of unknown fate stands
    batch          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX workers_living ON workers (lease_until_at) WHERE stopped_at IS NULL;

-- The cache of the workflow modules (K4).
CREATE TABLE modules (
    directory   TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    error       TEXT,
    workflows   TEXT    NOT NULL,
    PRIMARY KEY (directory, path)
) STRICT, WITHOUT ROWID;
