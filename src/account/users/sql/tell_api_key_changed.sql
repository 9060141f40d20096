-- Every node drops a key from its cache when its row changes.
create or replace function tell_api_key_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_key_changed', old.id::text);
  return null;
end $$;

create or replace trigger api_key_changed after update of key_hash, revoked_at, expires_at, scopes, budget_tokens, budget_interval, allowed_models, limits or delete on api_key
  for each row execute function tell_api_key_changed();
