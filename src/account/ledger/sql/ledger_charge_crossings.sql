-- The thresholds of a whole (an overage cap, or a key's budget) that a charge has crossed, for the entry `seq`. The used
-- tokens rise from `before` to `after`. Example: from 40 to 85 of 100: the thresholds 50 and 80.
create or replace function ledger_charge_crossings(
  of_user uuid, seq bigint, of_kind text, of_hold uuid, before bigint, after bigint, whole bigint, detail jsonb
) returns crossing[] language sql stable as $$
  select array_agg(row(of_user, seq, of_kind, percent, of_hold, detail)::crossing)
    from ledger_crossed(before, after, whole) as percent
$$;
