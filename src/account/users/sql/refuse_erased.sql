-- No row of an erased user is inserted after the erasure. Erasing locks the user's row before it
-- deletes anything. An insert takes a share lock on it: either the deletion comes later, or the insert finds the user
-- locked or erased and inserts nothing. With `drop` it skips the row silently, otherwise it fails with SQLSTATE PU404,
-- which callers get as 404 (`isErasedUser`). A change of the e-mail address takes the same lock as an erasure, for
-- milliseconds. So an insert waits, but less than PostgreSQL's deadlock_timeout: an erasure may wait for it too.
create or replace function refuse_erased() returns trigger language plpgsql set lock_timeout = '500ms' as $$
begin
  perform from users where id = new.user_id and erased_at is null for key share skip locked;
  if found or not exists (select from users where id = new.user_id) then return new; end if;
  begin
    perform from users where id = new.user_id and erased_at is null for key share;
    if found then return new; end if;
  exception when lock_not_available or deadlock_detected then null;
  end;
  if tg_argv[0] = 'drop' then return null; end if;
  raise 'the user is being erased, or is' using errcode = 'PU404';
end $$;

create or replace trigger notice_of_erased before insert on notice for each row execute function refuse_erased('drop');
create or replace trigger delivery_of_erased before insert on delivery for each row execute function refuse_erased('drop');
create or replace trigger output_of_erased before insert on delivered_output for each row execute function refuse_erased('drop');
create or replace trigger mail_of_erased before insert on sent_mail for each row execute function refuse_erased('drop');
create or replace trigger webhook_key_of_erased before insert on agent_webhook_key for each row execute function refuse_erased('drop');
create or replace trigger endpoint_of_erased before insert on webhook_endpoint for each row execute function refuse_erased('fail');
create or replace trigger agent_of_erased before insert on agent for each row execute function refuse_erased('fail');
create or replace trigger thread_of_erased before insert on thread for each row execute function refuse_erased('fail');
create or replace trigger api_key_of_erased before insert on api_key for each row execute function refuse_erased('fail');
create or replace trigger password_of_erased before insert on password for each row execute function refuse_erased('fail');
create or replace trigger answer_of_erased before insert on idempotency_key for each row execute function refuse_erased('fail');
create or replace trigger auto_topup_of_erased before insert on auto_topup for each row execute function refuse_erased('fail');
create or replace trigger failed_request_of_erased before insert on failed_request for each row execute function refuse_erased('drop');
create or replace trigger response_of_erased before insert on response for each row execute function refuse_erased('drop');
create or replace trigger reason_of_erased before insert on entry_reason for each row execute function refuse_erased('drop');
create or replace trigger item_of_erased before insert on response_item for each row execute function refuse_erased('drop');
