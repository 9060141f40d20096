-- People and their API keys; the service's own small tables (test clock, idempotency).

create table users (
  id uuid primary key,
  -- null once erased: the ledger keeps the id, nothing that names the person
  email text unique,
  created_at timestamptz(3) not null,
  suspended_at timestamptz(3),
  erased_at timestamptz(3),
  check ((email is null) = (erased_at is not null))
);

create table api_key (
  id uuid primary key,
  user_id uuid not null references users (id),
  name text not null,
  -- SHA-256 of the key; the key itself is never stored
  key_hash bytea not null unique,
  -- the key before the last rotation, good until then
  previous_key_hash bytea unique,
  previous_valid_until timestamptz(3),
  prefix text not null,
  last_four text not null,
  scopes text[] not null,
  budget_tokens bigint check (budget_tokens >= 0),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  revoked_at timestamptz(3)
);
create index api_key_by_user on api_key (user_id, id);

-- Every node drops a key from its cache when the row changes, whoever changed it.
create function tell_api_key_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_key_changed', old.id::text);
  return null;
end $$;
create trigger api_key_changed after update of key_hash, revoked_at, expires_at, scopes, budget_tokens or delete on api_key
  for each row execute function tell_api_key_changed();

create function tell_user_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('api_key_changed', id::text) from api_key where user_id = new.id;
  return null;
end $$;
create trigger user_changed after update of suspended_at, erased_at on users
  for each row execute function tell_user_changed();

create table idempotency_key (
  user_id uuid not null,
  key text not null,
  -- HMAC of method, path, API key and the body's value: the same key with another request is a mistake
  request_hash bytea not null,
  -- null while the first request is still running
  status integer,
  headers jsonb,
  body bytea,
  -- the domain's time, by which an answer is kept for a day
  created_at timestamptz not null,
  -- real time: a request whose node died is taken over after this
  locked_until timestamptz not null,
  primary key (user_id, key)
);
create index idempotency_key_by_age on idempotency_key (created_at);

-- With PURSER_TEST_CLOCK: where the clock stands.
create table test_clock (
  id integer primary key default 1 check (id = 1),
  now timestamptz(3) not null
);
