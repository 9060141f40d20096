-- The refusal code of a balance that does not cover a hold of at least `least_tokens`. `posted` counts the remaining
-- tokens of unexpired buckets, held or not: if they would suffice, other calls hold them.
-- Example: 100 posted, all of it held, no overage, 40 asked for: in_flight_exhausted.
create or replace function ledger_refusal(posted bigint, overage_cap bigint, overage bigint, least_tokens bigint) returns text
language sql immutable as $$
  select case
    when posted + greatest(0, overage_cap - overage) >= least_tokens then 'in_flight_exhausted'
    when overage_cap is not null then 'overage_cap_reached'
    when posted = 0 then 'out_of_tokens'
    else 'insufficient_balance'
  end
$$;
