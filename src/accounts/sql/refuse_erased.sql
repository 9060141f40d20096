-- Stops inserts for an erased user, also from work that was under way. Erasing locks the user's row first. An insert shares
-- that lock: if it can not get it, or the user is erased, `drop` leaves the row out silently (more depends on the
-- transaction) and `fail` raises an error. No insert waits for an erasure, so there is no deadlock with it.
create or replace function refuse_erased() returns trigger language plpgsql as $$
begin
  perform from users where id = new.user_id and erased_at is null for key share skip locked;
  if found or not exists (select from users where id = new.user_id) then return new; end if;
  if tg_argv[0] = 'drop' then return null; end if;
  raise 'the user is being erased, or is';
end $$;

create or replace trigger notice_of_erased before insert on notice for each row execute function refuse_erased('drop');
create or replace trigger webhook_key_of_erased before insert on agent_webhook_key for each row execute function refuse_erased('drop');
create or replace trigger endpoint_of_erased before insert on webhook_endpoint for each row execute function refuse_erased('fail');
create or replace trigger agent_of_erased before insert on agent for each row execute function refuse_erased('fail');
create or replace trigger thread_of_erased before insert on thread for each row execute function refuse_erased('fail');
create or replace trigger api_key_of_erased before insert on api_key for each row execute function refuse_erased('fail');
create or replace trigger password_of_erased before insert on password for each row execute function refuse_erased('fail');
