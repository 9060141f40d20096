-- The first queued runs of a user that a claim may begin, at most `most`. A run of a limited API key waits while as many runs of
-- the key are at work, and the runs behind it pass. The first 100 queued runs are read.
create or replace function runs_past_limited_keys(of_user uuid, claimer text, reserved_only boolean, most integer)
returns table (id uuid, priority smallint) language sql stable as $$
  select numbered.id, numbered.priority from (
    select *, row_number() over (partition by limited_key order by priority, id) as nth_of_key from (
      select id, priority, limited_key, key_limit from run
      where user_id = of_user and status = 'queued' and (worker_id = claimer or (worker_id is null and not reserved_only))
      order by priority, id limit 100
    ) as front
  ) as numbered
  where limited_key is null or nth_of_key + (
    select count(*) from run as busy
      where busy.user_id = of_user and busy.limited_key = numbered.limited_key and busy.status in ('running', 'cancelling')
  ) <= key_limit
  order by priority, id limit most
$$;
