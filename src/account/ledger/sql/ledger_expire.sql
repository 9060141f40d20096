-- Closes the buckets of one account that have expired by `instant`, in the order and at the time of their expiry. Held tokens
-- stay.
create or replace function ledger_expire(of_user uuid, instant timestamptz) returns void language plpgsql as $$
declare
  b bucket;
begin
  perform from account where user_id = of_user for update;
  for b in
    select * from bucket
      where user_id = of_user and closed_reason is null and expires_at <= instant and remaining > held
      order by expires_at, id
  loop
    update bucket set remaining = held, closed_reason = case when held = 0 then 'expired' end
      where user_id = of_user and id = b.id;
    perform ledger_post(of_user, 'expiry', b.held - b.remaining, b.id, b.held - b.remaining, 0, 'Expired', b.expires_at);
  end loop;
  if found then
    perform ledger_note_balance(of_user);
  end if;
end $$;
