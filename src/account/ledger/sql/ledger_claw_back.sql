-- Takes back up to `asked` tokens of a grant, once per key. It takes free tokens first, then tokens that expired unspent
-- (their expiry is reversed), then tokens that calls hold, when the holds end. Spent tokens become debt. Without a bucket,
-- overage is taken back, and all of it becomes debt.
create or replace function ledger_claw_back(
  of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamptz
) returns setof reversal language plpgsql as $$
declare
  b bucket;
  taken bigint;
  free bigint;
  lapsed bigint;
  recall bigint;
  owed bigint;
begin
  perform from account where user_id = of_user for update;
  return query select * from reversal where user_id = of_user and key = of_key;
  if found then
    return;
  end if;
  perform ledger_expire(of_user, instant);
  if of_bucket is null then
    perform ledger_post(of_user, 'clawback', -asked, null, 0, asked, of_reason, instant);
    return query insert into reversal (user_id, key, bucket_id, amount, debt, reason, created_at)
      values (of_user, of_key, null, asked, asked, of_reason, instant) returning *;
    return;
  end if;
  select * into strict b from bucket where user_id = of_user and id = of_bucket;
  taken := least(asked, b.original - b.clawed_back);
  free := least(taken, b.remaining - b.held);
  select least(taken - free, coalesce(-sum(e.amount), 0)) into lapsed from (
    select amount from entry where user_id = of_user and type = 'expiry' and bucket_id = of_bucket
    union all
    select amount from archived_entry_daily where user_id = of_user and type = 'expiry' and bucket_id = of_bucket
  ) as e;
  recall := least(taken - free - lapsed, b.held - b.recalled);
  owed := taken - free - lapsed - recall;
  update bucket
    set remaining = remaining - free, clawed_back = clawed_back + taken, recalled = recalled + recall,
      closed_reason = case when remaining = free then coalesce(closed_reason, 'clawed_back') end
    where user_id = of_user and id = of_bucket;
  if lapsed > 0 then
    perform ledger_post(of_user, 'expiry', lapsed, of_bucket, lapsed, 0, 'Expired unspent, now clawed back', instant);
  end if;
  if free + lapsed > 0 then
    perform ledger_post(of_user, 'clawback', -free - lapsed, of_bucket, -free - lapsed, 0, of_reason, instant);
  end if;
  if owed > 0 then
    perform ledger_post(of_user, 'clawback', -owed, null, 0, owed, of_reason, instant);
  end if;
  perform ledger_note_balance(of_user);
  return query insert into reversal (user_id, key, bucket_id, amount, debt, reason, created_at)
      values (of_user, of_key, of_bucket, taken, owed, of_reason, instant) returning *;
end $$;
