-- Schema 6: ended executions whose history and values are no longer kept.

-- When they were taken away; ID, workflow, status and moments stay for ever (E3). `operations` then
-- counts what is still to be taken away: 0 once nothing of the execution is left but this row.
ALTER TABLE executions ADD COLUMN pruned_at INTEGER;
-- How many there are of them, which lists leave out of their counts.
CREATE INDEX executions_pruned ON executions (workflow_id, status) WHERE pruned_at IS NOT NULL;
