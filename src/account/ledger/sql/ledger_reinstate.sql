-- Gives back up to `asked` tokens that were clawed back of a grant, once per key. Calls may keep tokens that they hold, then
-- debt is reduced, and the rest returns to the bucket, where it expires at once if the bucket has expired. Without a bucket,
-- only debt is reduced.
create or replace function ledger_reinstate(
  of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamptz
) returns setof reversal language plpgsql as $$
declare
  b bucket;
  given bigint;
  kept bigint;
  let_off bigint;
  back bigint;
  is_expired boolean;
begin
  select debt into strict let_off from account where user_id = of_user for update;
  return query select * from reversal where user_id = of_user and key = of_key;
  if found then
    return;
  end if;
  update account set refills = refills + 1 where user_id = of_user;
  perform ledger_expire(of_user, instant);
  if of_bucket is null then
    let_off := least(asked, let_off);
    if let_off > 0 then
      perform ledger_post(of_user, 'adjustment', let_off, null, 0, -let_off, of_reason, instant);
    end if;
    return query insert into reversal (user_id, key, bucket_id, amount, debt, reason, created_at)
      values (of_user, of_key, null, -let_off, -let_off, of_reason, instant) returning *;
    return;
  end if;
  select * into strict b from bucket where user_id = of_user and id = of_bucket;
  is_expired := b.expires_at <= instant;
  given := least(asked, b.clawed_back);
  kept := least(given, b.recalled);
  let_off := least(given - kept, let_off);
  back := given - kept - let_off;
  update bucket
    set remaining = remaining + case when is_expired then 0 else back end,
      clawed_back = clawed_back - given, recalled = recalled - kept,
      closed_reason = case when is_expired or back = 0 then closed_reason end
    where user_id = of_user and id = of_bucket;
  if let_off > 0 then
    perform ledger_post(of_user, 'adjustment', let_off, null, 0, -let_off, of_reason, instant);
  end if;
  if back > 0 then
    perform ledger_post(of_user, 'adjustment', back, of_bucket, back, 0, of_reason, instant);
    if is_expired then
      perform ledger_post(of_user, 'expiry', -back, of_bucket, -back, 0, 'Expired', instant);
    end if;
  end if;
  return query insert into reversal (user_id, key, bucket_id, amount, debt, reason, created_at)
      values (of_user, of_key, of_bucket, -given, -let_off, of_reason, instant) returning *;
end $$;
