-- What a user has stored within a day is counted before another response is stored.
create index concurrently if not exists response_of_day on response (user_id, created_at) include (bytes);
