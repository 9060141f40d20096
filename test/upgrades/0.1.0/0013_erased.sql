-- Nothing of an erased user appears again, whatever was still under way. Erasing locks the user's row before it deletes
-- anything; who inserts holds the row in share, so that the deletion comes after it, or finds it locked or erased, and
-- inserts nothing: `drop` leaves the row out in silence, where more hangs on the transaction; else it fails. Nobody waits
-- for an erasure, so nobody can stand in a circle with it.
create function refuse_erased() returns trigger language plpgsql as $$
begin
  perform from users where id = new.user_id and erased_at is null for key share skip locked;
  if found or not exists (select from users where id = new.user_id) then return new; end if;
  if tg_argv[0] = 'drop' then return null; end if;
  raise 'the user is being erased, or is';
end $$;

create trigger notice_of_erased before insert on notice for each row execute function refuse_erased('drop');
create trigger webhook_key_of_erased before insert on agent_webhook_key for each row execute function refuse_erased('drop');
create trigger endpoint_of_erased before insert on webhook_endpoint for each row execute function refuse_erased('fail');
create trigger agent_of_erased before insert on agent for each row execute function refuse_erased('fail');
create trigger thread_of_erased before insert on thread for each row execute function refuse_erased('fail');
create trigger api_key_of_erased before insert on api_key for each row execute function refuse_erased('fail');
create trigger password_of_erased before insert on password for each row execute function refuse_erased('fail');
