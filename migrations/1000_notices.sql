-- Notices to users, results of runs, and the deliveries of both. created_at and disabled_at are the domain's time;
-- deliveries use real time.

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
  primary key (user_id, id),
  unique (user_id, event, dedupe_key)
);
create index notice_by_event on notice (user_id, event, id);
create index notice_by_age on notice (created_at);

-- The queue of all that is sent: a notice to an endpoint that subscribed to its event when it was written, or the result of a
-- run to an address that its agent named when it ended.
create table delivery (
  user_id uuid not null,
  -- the webhook-id of every try: the notice's id, or a result's own
  id uuid not null,
  -- the endpoint, or an id made of a result's address; a node makes one try of a destination at a time
  destination_id uuid not null,
  notice_id uuid,
  endpoint_id uuid,
  -- of a result; a run has one for each of the agent's addresses that its end matches
  run_id uuid,
  address text,
  -- skipped if its output is the one that the address got last
  unless_unchanged boolean not null default false,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed', 'skipped')),
  -- counts the claims; a result of an earlier claim changes nothing
  attempts integer not null default 0,
  queued_at timestamptz(3) not null default clock_timestamp(),
  -- of a claimed delivery: the end of the claim
  next_attempt_at timestamptz(3) default clock_timestamp(),
  last_attempt_at timestamptz(3),
  last_status integer,
  last_error text,
  delivered_at timestamptz(3),
  primary key (user_id, id, destination_id),
  foreign key (user_id, notice_id) references notice on delete cascade,
  foreign key (user_id, endpoint_id) references webhook_endpoint on delete cascade,
  check ((run_id is null) = (notice_id is not null)),
  check ((notice_id is null) = (endpoint_id is null)),
  check ((run_id is null) = (address is null)),
  check ((next_attempt_at is not null) = (status = 'pending')),
  check ((delivered_at is not null) = (status = 'delivered'))
);
create index delivery_due on delivery (destination_id, next_attempt_at) where status = 'pending';
create index delivery_of_notice on delivery (user_id, notice_id) where notice_id is not null;
create index delivery_of_endpoint on delivery (user_id, endpoint_id) where endpoint_id is not null;
create index delivery_of_run on delivery (user_id, run_id) where run_id is not null;

-- The output that an address got last from a schedule or, with the nil UUID, from an agent's run-nows: its SHA-256.
create table delivered_output (
  user_id uuid not null,
  agent_id uuid not null,
  schedule_id uuid not null,
  destination_id uuid not null,
  output_hash text not null,
  primary key (user_id, agent_id, schedule_id, destination_id)
);

-- The mails of a day, which are limited. A row outlives its notice, endpoint and run, so that the limit cannot be avoided.
create table sent_mail (
  user_id uuid not null,
  delivery_id uuid not null,
  sent_at timestamptz(3) not null default clock_timestamp(),
  primary key (user_id, delivery_id)
);
create index sent_mail_by_age on sent_mail (sent_at);
