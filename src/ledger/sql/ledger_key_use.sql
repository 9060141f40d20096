-- The spent and held tokens of an API key before this batch. It is read once per key and batch: a query per operation,
-- which also added the earlier operations, reduced the throughput by a factor of 2.7 at 256 callers.
create or replace function ledger_key_use(of_user uuid, of_key uuid, out spent bigint, out held bigint)
language sql stable as $$
  select coalesce(sum(s.spent), 0), coalesce(sum(s.held), 0) from key_spend s
    where s.user_id = of_user and s.api_key_id = of_key
$$;
