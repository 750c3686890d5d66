-- Schema 5: questions whose cost is that of their answer, in files of a million executions.

-- `ys list`: open and ended ones apart, the latest first. With the status at hand the open ones are
-- counted without being read.
DROP INDEX executions_listed;
DROP INDEX executions_open;
CREATE INDEX executions_open ON executions (updated_at, n, status)
    WHERE status IN ('admitted', 'suspended');
CREATE INDEX executions_ended ON executions (updated_at)
    WHERE status IN ('completed', 'failed', 'cancelled');
-- Those that ended badly: few, and asked for by name.
CREATE INDEX executions_unwell ON executions (updated_at, n, status)
    WHERE status IN ('failed', 'cancelled');
-- Those that may kill their worker (L5): every poll asks for the next of them.
CREATE INDEX executions_suspects
    ON executions (claim_at, n, workflow_id, version, format, deaths)
    WHERE claim_at IS NOT NULL AND deaths >= 2;
