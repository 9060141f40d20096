-- The usage of a user by dimensions that the daily sums do not have reads the calls of a window of time.
create index concurrently if not exists usage_event_by_time on usage_event (user_id, created_at);
