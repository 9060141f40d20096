-- The operator looks for runs with errors among the runs of all users.
create index concurrently if not exists run_with_errors on run (id) where status = 'failed' or failed_calls > 0;
