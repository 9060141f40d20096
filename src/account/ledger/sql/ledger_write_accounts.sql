-- Writes the accounts of a batch, and their changed buckets. Each bucket has the same index in all arrays; `endings`
-- has the reason for closing it when nothing remains.
create or replace function ledger_write_accounts(
  accounts account[], owners uuid[], ids uuid[], remaining bigint[], held bigint[], recalled bigint[], endings text[]
) returns void language plpgsql as $$
begin
  update account set seq = changed.seq, last_hash = changed.last_hash, posted = changed.posted, held = changed.held,
      overage = changed.overage, overage_held = changed.overage_held, debt = changed.debt,
      notified_percent = changed.notified_percent
    from unnest(accounts) as changed where account.user_id = changed.user_id;
  update bucket set remaining = changed.remaining, held = changed.held, recalled = changed.recalled,
      closed_reason = case when changed.remaining = 0 then changed.ending end
    from unnest(owners, ids, $4, $5, $6, endings) as changed(user_id, id, remaining, held, recalled, ending)
    where bucket.user_id = changed.user_id and bucket.id = changed.id
      and (bucket.remaining, bucket.held) is distinct from (changed.remaining, changed.held);
end $$;
