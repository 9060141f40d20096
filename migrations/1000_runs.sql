-- Runs and their steps. src/runs/README.md explains the terms. Leases use the server's real time, the rest the domain's time.

-- A run of an agent. The table is also the queue: a worker claims a row by its lease.
create table run (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  agent_version integer not null,
  trigger text not null check (trigger in ('schedule', 'manual', 'chat')),
  status text not null default 'queued'
    check (status in ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
  scheduled_for timestamptz(3) check ((scheduled_for is not null) = (trigger = 'schedule')),
  queued_at timestamptz(3) not null,
  started_at timestamptz(3),
  finished_at timestamptz(3) check ((finished_at is not null) = (status in ('succeeded', 'failed', 'cancelled'))),
  attempt integer not null default 1,
  model_id text,
  routing jsonb,
  -- sums of the steps
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cost_tokens bigint not null default 0,
  steps_count integer not null default 0,
  error jsonb check ((error is not null) = (status = 'failed')),
  output text,
  -- the engine's input; the queue does not read it
  input jsonb not null,
  -- lower is earlier: a caller waits for a chat, but not for a schedule
  priority smallint not null,
  cancel_requested_at timestamptz(3),
  -- the worker that executes it, or for which it is reserved while it is queued
  worker_id text,
  lease_until timestamptz,
  -- counts the claims; a write under an earlier one is rejected
  epoch integer not null default 0,
  -- real time of the last claim, and the execution time of the earlier workers
  claimed_at timestamptz,
  worked_ms bigint not null default 0,
  -- workers that it lost in the middle of a step since the last finished step
  losses integer not null default 0,
  -- its worker is on the node that queued it, so that the caller is told without a notification
  at_home boolean not null default false,
  primary key (user_id, id),
  check (status not in ('running', 'cancelling') or (worker_id is not null and lease_until is not null))
) with (fillfactor = 70);
create index run_by_agent on run (user_id, agent_id, id);
create index run_queued on run (user_id, priority, id) where status = 'queued';
create index run_queue_order on run (priority, id) where status = 'queued';
create index run_at_work on run (user_id) where status in ('running', 'cancelling');
create index run_cancelling on run (id) where status = 'cancelling';
create index run_leased on run (lease_until) where status in ('queued', 'running', 'cancelling') and lease_until is not null;
create index run_open on run (user_id, agent_id) where status in ('queued', 'running', 'cancelling');
create index run_ended on run (finished_at, user_id, id) where finished_at is not null;

-- The user whose turn was last, when the queue has runs of many users. One row.
create table run_turn (
  only_one boolean primary key default true check (only_one),
  user_id uuid not null
);
insert into run_turn (user_id) values ('00000000-0000-0000-0000-000000000000');

-- One model or tool call of a run. A row that is `running` is an intent: the result of the call is not known.
create table run_step (
  user_id uuid not null,
  run_id uuid not null,
  index integer not null,
  type text not null check (type in ('model', 'tool')),
  name text not null,
  status text not null check (status in ('running', 'succeeded', 'failed', 'cancelled')),
  arguments jsonb,
  result jsonb,
  error jsonb,
  safety jsonb,
  usage jsonb,
  started_at timestamptz(3) not null,
  finished_at timestamptz(3) check ((finished_at is null) = (status = 'running')),
  -- for a resumed run; never shown to a caller
  internal jsonb,
  primary key (user_id, run_id, index),
  foreign key (user_id, run_id) references run on delete cascade
);
