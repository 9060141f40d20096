-- Every node drops the cached keys of a user who is suspended, resumed or erased.
create or replace function tell_user_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_key_changed', id::text) from api_key where user_id = new.id;
  return null;
end $$;

create or replace trigger user_changed after update of suspended_at, erased_at on users
  for each row execute function tell_user_changed();
