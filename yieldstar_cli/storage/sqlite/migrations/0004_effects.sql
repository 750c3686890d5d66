-- Schema 4: effects of the outside world, and waits for those that another tries (F1).

CREATE TABLE effects (
    f             INTEGER PRIMARY KEY AUTOINCREMENT,
    effect_id     TEXT    NOT NULL UNIQUE,
    operation     TEXT    NOT NULL,
    input         TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('pending', 'settled')),
    result        TEXT             CHECK ((status = 'settled') = (result IS NOT NULL)),
    begun_at      INTEGER NOT NULL,
    begun_by      INTEGER NOT NULL,
    settled_at    INTEGER,
    settled_by    INTEGER,
    -- Who may try it now: the right ends with the delivery, whatever is written here.
    holder        INTEGER,
    holder_token  INTEGER,
    holder_key    TEXT
) STRICT;
CREATE INDEX effects_held ON effects (holder) WHERE holder IS NOT NULL;

-- What did not agree with an effect.
CREATE TABLE effect_reports (
    r             INTEGER PRIMARY KEY AUTOINCREMENT,
    f             INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('mismatch', 'conflict', 'late')),
    operation     TEXT,
    input         TEXT,
    result        TEXT
) STRICT;
CREATE INDEX effect_reports_of ON effect_reports (f);

ALTER TABLE waits ADD COLUMN effect TEXT;
CREATE INDEX waits_effects ON waits (effect) WHERE effect IS NOT NULL;
