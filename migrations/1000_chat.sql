-- Conversations with agents that the service keeps. The messages are in the runs; these rows say which runs belong together.

-- A conversation. The start of a turn locks its row, so that two turns cannot start at once.
create table thread (
  user_id uuid not null,
  -- in the order of creation; needed because the id of a deleted thread may be used again
  uid uuid not null,
  agent_id uuid not null,
  -- chosen by the caller
  id text not null check (id ~ '^[A-Za-z0-9_.:-]{1,128}$'),
  -- the turn that started last, and its run
  last_turn integer not null default 0,
  last_run_id uuid,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (user_id, uid),
  unique (user_id, agent_id, id),
  check ((last_turn = 0) = (last_run_id is null))
);
create index thread_of_agent on thread (user_id, agent_id, uid desc);
-- Empty threads of a user are counted when one is created. Threads with turns are many, and are not read for that.
create index thread_empty on thread (user_id) where last_turn = 0;

-- A turn belongs to its thread if its run has succeeded, so the end of a run writes nothing here. Only the last turn can be
-- open or failed; the next turn replaces it.
create table thread_turn (
  user_id uuid not null,
  thread_uid uuid not null,
  turn integer not null check (turn > 0),
  run_id uuid not null,
  -- the number of oldest turns that did not fit into the model's context
  turns_left_out integer not null default 0,
  primary key (user_id, thread_uid, turn),
  unique (user_id, run_id),
  foreign key (user_id, thread_uid) references thread (user_id, uid) on delete cascade
);
