-- Stores the thresholds of the balance that an expiry or a claw-back crossed, without a call.
create or replace function ledger_note_balance(of_user uuid) returns void language plpgsql as $$
declare
  a account;
  reached integer;
begin
  select * into strict a from account where user_id = of_user;
  reached := ledger_used_percent(a.granted, a.posted);
  if reached > a.notified_percent then
    insert into crossing (user_id, seq, kind, percent, hold_id, detail)
      select of_user, a.seq, 'balance', percent, null,
          jsonb_build_object('granted_tokens', a.granted, 'remaining_tokens', a.posted)
        from unnest(ledger_thresholds()) as percent where percent > a.notified_percent and percent <= reached;
    update account set notified_percent = reached where user_id = of_user;
  end if;
end $$;
