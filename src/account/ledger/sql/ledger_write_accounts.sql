-- Writes the accounts of a batch, and their changed buckets. A bucket of which nothing remains is closed.
create or replace function ledger_write_accounts(accounts account[], buckets bucket[], instant timestamptz) returns void
language plpgsql as $$
begin
  update account set seq = changed.seq, last_hash = changed.last_hash, posted = changed.posted, held = changed.held,
      overage = changed.overage, overage_held = changed.overage_held, debt = changed.debt,
      told_percent = changed.told_percent
    from unnest(accounts) as changed where account.user_id = changed.user_id;
  update bucket set remaining = changed.remaining, held = changed.held, recalled = changed.recalled,
      closed_reason = case when changed.remaining = 0
        then coalesce(changed.closed_reason, case when changed.expires_at > instant then 'spent' else 'expired' end) end
    from unnest(buckets) as changed
    where bucket.user_id = changed.user_id and bucket.id = changed.id
      and (bucket.remaining, bucket.held) is distinct from (changed.remaining, changed.held);
end $$;
