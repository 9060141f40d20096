-- What is too old is found without reading what is not: runs and occurrences by age, agents by when they were deleted.
create index run_ended on run (finished_at, user_id, id) where finished_at is not null;
create index occurrence_recorded on occurrence (recorded_at);
create index agent_deleted on agent (deleted_at, user_id, id) where deleted_at is not null;
