-- No row of an erased user is inserted after the erasure. Erasing locks the user's row before it
-- deletes anything. An insert takes a share lock on it: either the deletion comes later, or the insert finds the user
-- locked or erased and inserts nothing. With `drop` it skips the row silently, otherwise it fails with SQLSTATE PU404,
-- which callers get as 404 (`isErasedUser`). No insert waits for an erasure, so no deadlock is possible.
create or replace function refuse_erased() returns trigger language plpgsql as $$
begin
  perform from users where id = new.user_id and erased_at is null for key share skip locked;
  if found or not exists (select from users where id = new.user_id) then return new; end if;
  if tg_argv[0] = 'drop' then return null; end if;
  raise 'the user is being erased, or is' using errcode = 'PU404';
end $$;

create or replace trigger notice_of_erased before insert on notice for each row execute function refuse_erased('drop');
create or replace trigger webhook_key_of_erased before insert on agent_webhook_key for each row execute function refuse_erased('drop');
create or replace trigger endpoint_of_erased before insert on webhook_endpoint for each row execute function refuse_erased('fail');
create or replace trigger agent_of_erased before insert on agent for each row execute function refuse_erased('fail');
create or replace trigger thread_of_erased before insert on thread for each row execute function refuse_erased('fail');
create or replace trigger api_key_of_erased before insert on api_key for each row execute function refuse_erased('fail');
create or replace trigger password_of_erased before insert on password for each row execute function refuse_erased('fail');
