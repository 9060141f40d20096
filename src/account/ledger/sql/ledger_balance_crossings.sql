-- The thresholds of the balance between `told` and `reached` per cent, for the entry `seq`. `granted` is the balance after
-- the last grant, `posted` the balance now. Example: told 0, reached 80: the thresholds 50 and 80.
create or replace function ledger_balance_crossings(
  of_user uuid, seq bigint, of_hold uuid, told integer, reached integer, granted bigint, posted bigint
) returns crossing[] language sql stable as $$
  select array_agg(row(of_user, seq, 'balance', percent, of_hold,
      jsonb_build_object('granted_tokens', granted, 'remaining_tokens', posted))::crossing)
    from unnest(ledger_thresholds()) as percent where percent > told and percent <= reached
$$;
