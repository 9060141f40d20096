-- Every node drops the cached sessions of a user who is suspended, resumed or erased, or whose operator role changes.
create or replace function tell_sessions_of_user() returns trigger language plpgsql as $$
begin
  perform pg_notify('session_changed', new.id::text);
  return null;
end $$;

create or replace trigger user_sessions_changed after update of suspended_at, erased_at, operator_role on users
  for each row execute function tell_sessions_of_user();
