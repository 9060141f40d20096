-- The thresholds, in per cent of `whole`, that are above `before` and at most `after`.
create or replace function ledger_crossed(before bigint, after bigint, whole bigint) returns setof integer
language sql immutable as $$
  select percent from unnest(ledger_thresholds()) as percent
    where before::numeric * 100 < whole::numeric * percent and after::numeric * 100 >= whole::numeric * percent
$$;
