-- Keeps what an operator wrote about the newest entry of a user, apart from the entry, so that erasing the user can delete it.
create or replace function ledger_keep_reason(of_user uuid, of_reason text) returns void language plpgsql as $$
begin
  insert into entry_reason (user_id, seq, reason) select user_id, seq, of_reason from account where user_id = of_user;
end $$;
