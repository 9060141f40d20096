-- Output items of the Responses API, which a later request may refer to by their id for a day.
create table response_item (
  user_id uuid not null,
  id text not null,
  -- sealed: an item holds a user's conversation
  item bytea not null,
  -- the domain's time, by which an item is kept for a day
  created_at timestamptz not null,
  primary key (user_id, id)
);
create index response_item_by_age on response_item (created_at);

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
-- What a user has stored within a day is counted before another response is stored.
create index response_of_day on response (user_id, created_at) include (bytes);
