-- The threshold that the used, expired or clawed-back part of `granted` has reached: 100, 80, 50 or 0 per cent.
-- `granted` is the balance after the last grant.
create or replace function ledger_used_percent(granted bigint, posted bigint) returns integer language sql immutable as $$
  select case
    when granted = 0 then 0
    when posted = 0 then 100
    when (granted - posted) * 5 >= granted * 4 then 80
    when (granted - posted) * 2 >= granted then 50
    else 0
  end
$$;
