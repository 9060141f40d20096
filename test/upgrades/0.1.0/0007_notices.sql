-- Notices: what users are told of, and its deliveries to their endpoints. created_at and disabled_at are the domain's
-- time; everything about a delivery is the server's real time.

create table webhook_endpoint (
  user_id uuid not null,
  id uuid not null,
  url text not null,
  events text[] not null check (cardinality(events) > 0),
  -- sealed under the master keys: it is needed to sign
  secret bytea not null,
  created_at timestamptz(3) not null,
  -- not null: the endpoint answered 410 Gone, and nothing is sent there any more
  disabled_at timestamptz(3),
  primary key (user_id, id)
);

create table notice (
  user_id uuid not null,
  id uuid not null,
  event text not null,
  -- names the occurrence: it is told once
  dedupe_key text not null,
  data jsonb not null,
  created_at timestamptz(3) not null,
  primary key (user_id, id),
  unique (user_id, event, dedupe_key)
);
create index notice_by_event on notice (user_id, event, id);
create index notice_by_age on notice (created_at);

-- One per notice and endpoint that wanted it when it was told.
create table notice_delivery (
  user_id uuid not null,
  notice_id uuid not null,
  endpoint_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  -- counts the claims: what an earlier one writes is refused
  attempts integer not null default 0,
  queued_at timestamptz(3) not null default clock_timestamp(),
  -- of a claimed one: when its claim is over
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

-- Every node hears of a delivery as soon as what it tells of is committed.
create function tell_delivery_due() returns trigger language plpgsql as $$
begin
  perform pg_notify('notice_due', '');
  return null;
end $$;
create trigger delivery_queued after insert on notice_delivery for each statement execute function tell_delivery_due();
