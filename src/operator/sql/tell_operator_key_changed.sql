-- Every node drops an operator key from its cache when its row changes.
create or replace function tell_operator_key_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('operator_key_changed', old.id::text);
  return null;
end $$;

create or replace trigger operator_key_changed
  after update of key_hash, previous_valid_until, revoked_at, expires_at, role or delete on operator_key
  for each row execute function tell_operator_key_changed();
