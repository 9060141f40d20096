-- Notices to users and their deliveries. created_at and disabled_at are the domain's time; deliveries use real time.

-- The addresses to which notices are delivered, with the events that each subscribes to.
create table webhook_endpoint (
  user_id uuid not null,
  id uuid not null,
  url text not null,
  events text[] not null check (cardinality(events) > 0),
  -- sealed, not hashed, because it signs deliveries
  secret bytea not null,
  created_at timestamptz(3) not null,
  -- not null: the endpoint answered 410 Gone and gets no more deliveries
  disabled_at timestamptz(3),
  primary key (user_id, id)
);

-- One event that a user is notified of.
create table notice (
  user_id uuid not null,
  id uuid not null,
  event text not null,
  -- identifies the occurrence, so that it gives one notice
  dedupe_key text not null,
  data jsonb not null,
  created_at timestamptz(3) not null,
  -- when it was mailed; it outlives its endpoint, so that the limit of mails a day cannot be avoided
  mailed_at timestamptz(3),
  primary key (user_id, id),
  unique (user_id, event, dedupe_key)
);
create index notice_by_event on notice (user_id, event, id);
create index notice_by_age on notice (created_at);
-- A user's mails of a day are counted before another is sent.
create index notice_mailed on notice (user_id, mailed_at) where mailed_at is not null;

-- One notice to one endpoint that subscribed to the event when the notice was written.
create table notice_delivery (
  user_id uuid not null,
  notice_id uuid not null,
  endpoint_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  -- counts the claims; a result of an earlier claim changes nothing
  attempts integer not null default 0,
  queued_at timestamptz(3) not null default clock_timestamp(),
  -- of a claimed delivery: the end of the claim
  next_attempt_at timestamptz(3) default clock_timestamp(),
  last_attempt_at timestamptz(3),
  last_status integer,
  last_error text,
  delivered_at timestamptz(3),
  primary key (user_id, notice_id, endpoint_id),
  foreign key (user_id, notice_id) references notice on delete cascade,
  foreign key (user_id, endpoint_id) references webhook_endpoint on delete cascade,
  check ((next_attempt_at is not null) = (status = 'pending')),
  check ((delivered_at is not null) = (status = 'delivered'))
);
create index notice_delivery_due on notice_delivery (endpoint_id, next_attempt_at) where status = 'pending';
create index notice_delivery_of_endpoint on notice_delivery (user_id, endpoint_id);
