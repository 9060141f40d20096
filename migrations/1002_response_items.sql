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
