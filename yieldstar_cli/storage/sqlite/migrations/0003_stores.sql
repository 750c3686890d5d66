-- Schema 3: stores, and waits on their states.

CREATE TABLE stores (
    s           INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    store_id    TEXT    NOT NULL,
    -- unlike that of any store before it under this name
    instance    TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    UNIQUE (name, store_id)
) STRICT;

-- What a wait has read of a store in vain: JSON, pairs of path and digest (S4).
ALTER TABLE waits ADD COLUMN store_name TEXT;
ALTER TABLE waits ADD COLUMN store_id TEXT;
ALTER TABLE waits ADD COLUMN store_instance TEXT;
ALTER TABLE waits ADD COLUMN store_read TEXT;
CREATE INDEX waits_stores ON waits (store_name, store_id) WHERE store_name IS NOT NULL;
