-- Adds a bucket, once per grant_key, and repays debt from it first. Returns the bucket's id; for a known grant_key, the id
-- of the earlier bucket.
create or replace function ledger_grant(
  of_user uuid, bucket_id uuid, of_source text, amount bigint, granted timestamptz, expires timestamptz,
  of_note text, of_key text
) returns uuid language plpgsql as $$
declare
  a account;
  known uuid;
  repaid bigint;
begin
  select * into strict a from account where user_id = of_user for update;
  select id into known from bucket where user_id = of_user and grant_key = of_key;
  if found then
    return known;
  end if;
  perform ledger_expire(of_user, granted);
  repaid := least(a.debt, amount);
  insert into bucket (user_id, id, source, original, remaining, granted_at, expires_at, note, grant_key, closed_reason)
    values (of_user, bucket_id, of_source, amount, amount - repaid, granted, expires, of_note, of_key,
      case when repaid = amount then 'clawed_back' end);
  -- Without a key, an operator grants, and the note is the operator's.
  perform ledger_post(of_user, 'grant', amount, bucket_id, amount, 0,
    case when of_key is null then 'Granted' else coalesce(of_note, 'Granted') end, granted);
  if of_key is null and of_note is not null then
    perform ledger_keep_reason(of_user, of_note);
  end if;
  if repaid > 0 then
    perform ledger_post(of_user, 'adjustment', -repaid, bucket_id, -repaid, 0, 'Debt repaid from this grant', granted);
    perform ledger_post(of_user, 'adjustment', repaid, null, 0, -repaid, 'Debt repaid', granted);
  end if;
  update account set granted = posted, notified_percent = 0, refills = refills + 1,
      paid_since = coalesce(paid_since, case when of_source <> 'bonus' then ledger_grant.granted end)
    where user_id = of_user;
  return bucket_id;
end $$;
