-- Requests to the models' APIs that failed. Those that were charged are in usage_event, also if they failed after their beginning.

-- A failed request. It has no money in it, so it is written in batches, and a crash may lose the last ones.
create table failed_request (
  user_id uuid not null,
  -- the hold of its call if it got that far, so that it is the id of its charge, too
  id uuid not null,
  request_id text not null,
  api text not null,
  api_key_id uuid,
  end_user text,
  -- as the request named it
  model text,
  -- 200: a stream broke off after its beginning; 499: the caller left
  http_status integer not null,
  error_code text not null,
  -- in our words; null: it would repeat the request's text, or it is unknown
  error_message text,
  param text,
  duration_ms integer not null,
  created_at timestamptz(3) not null,
  primary key (user_id, id)
);
create index failed_request_by_age on failed_request (created_at);
create index failed_request_by_request on failed_request (request_id, user_id);
