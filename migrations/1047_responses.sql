-- Responses that callers may read again and continue by previous_response_id.
create table response (
  user_id uuid not null,
  id text not null,
  -- the response that it continues
  previous_id text,
  -- the response as it was answered, and the input items of its request
  body jsonb not null,
  input jsonb not null,
  -- of both, as text
  bytes integer not null check (bytes > 0),
  created_at timestamptz(3) not null,
  -- when it was answered or last continued; it is kept for some days from then on
  used_at timestamptz(3) not null,
  primary key (user_id, id)
);
create index response_by_age on response (used_at);
