-- Every node drops a user's sessions from its cache when one ends, or the user is suspended, resumed or erased.
create or replace function tell_session_ended() returns trigger language plpgsql as $$
begin
  perform pg_notify('session_changed', old.user_id::text);
  return null;
end $$;

create or replace trigger session_ended after delete on session for each row execute function tell_session_ended();
