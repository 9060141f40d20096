-- Takes `asked` free tokens as an operator's adjustment: from one bucket, or from bonuses before paid buckets, and of each
-- the oldest ones first. Returns the free tokens before it; if they are fewer than `asked`, nothing changes.
create or replace function ledger_adjust_down(
  of_user uuid, asked bigint, of_bucket uuid, of_reason text, instant timestamptz
) returns bigint language plpgsql as $$
declare
  b bucket;
  free bigint;
  taken bigint;
  rest bigint := asked;
begin
  perform ledger_expire(of_user, instant);
  select coalesce(sum(remaining - held), 0) into free from bucket
    where user_id = of_user and closed_reason is null and (of_bucket is null or id = of_bucket)
      and (expires_at > instant or id = of_bucket);
  if free < asked then
    return free;
  end if;
  for b in
    select * from bucket
      where user_id = of_user and closed_reason is null and remaining > held and (of_bucket is null or id = of_bucket)
      order by source <> 'bonus', granted_at, id
  loop
    taken := least(rest, b.remaining - b.held);
    exit when taken = 0;
    update bucket set remaining = remaining - taken, adjusted = adjusted + taken,
        closed_reason = case when remaining = taken then 'closed' end
      where user_id = of_user and id = b.id;
    perform ledger_post(of_user, 'adjustment', -taken, b.id, -taken, 0, 'Adjustment', instant);
    perform ledger_keep_reason(of_user, of_reason);
    rest := rest - taken;
  end loop;
  perform ledger_note_balance(of_user);
  return free;
end $$;
