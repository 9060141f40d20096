-- Threads: conversations with an agent that the service keeps. What was said is in the runs; these rows say which runs
-- belong together. A turn is part of its thread when, and as soon as, its run has succeeded: nothing is written then.

create table thread (
  user_id uuid not null,
  -- the order of creation; a deleted thread's id may be used again
  uid uuid not null,
  agent_id uuid not null,
  -- the caller's choice
  id text not null check (id ~ '^[A-Za-z0-9_.:-]{1,128}$'),
  -- of the turn that was begun last
  last_turn integer not null default 0,
  last_run_id uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (user_id, uid),
  unique (user_id, agent_id, id),
  check ((last_turn = 0) = (last_run_id is null))
);
create index thread_of_agent on thread (user_id, agent_id, uid desc);

-- Only the last one of a thread can have a run that has not succeeded; the next turn takes its place.
create table thread_turn (
  user_id uuid not null,
  thread_uid uuid not null,
  turn integer not null check (turn > 0),
  run_id uuid not null,
  -- of the oldest turns, those that the model was not sent for want of room
  turns_left_out integer not null default 0,
  primary key (user_id, thread_uid, turn),
  unique (user_id, run_id),
  foreign key (user_id, thread_uid) references thread (user_id, uid) on delete cascade
);
