-- Answers to requests with an Idempotency-Key, kept for a day so that a repeated request gets the same answer.
create table idempotency_key (
  user_id uuid not null,
  key text not null,
  -- HMAC of method, path, API key and body: the same key with another request is an error
  request_hash bytea not null,
  -- null while the first request is running
  status integer,
  headers jsonb,
  body bytea,
  -- the domain's time, which ends the day
  created_at timestamptz not null,
  -- real time: afterwards another request may take over from a node that died
  locked_until timestamptz not null,
  -- whether the request cost nothing; such answers have a limit per user
  cost_nothing boolean not null default true,
  primary key (user_id, key)
);
create index idempotency_key_by_age on idempotency_key (created_at);
-- The stored answers of a user whose requests cost nothing are counted when another one is stored.
create index idempotency_free on idempotency_key (user_id) where cost_nothing;
-- The answers of operators about a user lose their bodies when the user is erased.
create index idempotency_about_user on idempotency_key ((headers ->> 'about-user')) where headers ->> 'about-user' is not null;
