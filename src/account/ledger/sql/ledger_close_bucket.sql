-- Closes an open bucket: takes its free tokens as an adjustment, and lets it expire, so that tokens which calls hold can be
-- spent by those calls only. Returns the tokens taken; null if the bucket is not open.
create or replace function ledger_close_bucket(of_user uuid, of_bucket uuid, of_reason text, instant timestamptz)
returns bigint language plpgsql as $$
declare
  b bucket;
begin
  perform ledger_expire(of_user, instant);
  select * into b from bucket where user_id = of_user and id = of_bucket and closed_reason is null;
  if not found then
    return null;
  end if;
  -- A millisecond later, so that what was spent until now was spent before the expiry.
  update bucket set expires_at = least(expires_at, greatest(instant, granted_at) + interval '1 millisecond')
    where user_id = of_user and id = of_bucket;
  if b.remaining > b.held then
    perform ledger_adjust_down(of_user, b.remaining - b.held, of_bucket, of_reason, instant);
  end if;
  return b.remaining - b.held;
end $$;
