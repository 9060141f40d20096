-- The API key of a run and how many of its runs may be at work at the same time, if the key has such a limit.
alter table run add column limited_key uuid, add column key_limit integer;
-- Runs at work of limited keys: a claim counts them.
create index run_of_limited_key on run (user_id, limited_key) where limited_key is not null and status in ('running', 'cancelling');
-- Whether any queued run has such a key.
create index run_queued_limited on run (user_id) where limited_key is not null and status = 'queued';
