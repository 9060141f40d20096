-- Runs and their steps. src/agents/runs/README.md explains the terms. Leases use the server's real time, the rest the domain's time.

-- A run of an agent. The table is also the queue: a worker claims a row by its lease.
create table run (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  agent_version integer not null,
  trigger text not null check (trigger in ('schedule', 'manual', 'chat', 'webhook', 'test')),
  status text not null default 'queued',
  -- The same table as RUN_STATUSES in the contract. A status without a phase is rejected.
  phase text not null generated always as (
    case status
      when 'queued' then 'queued'
      when 'requires_action' then 'waiting'
      when 'running' then 'working'
      when 'cancelling' then 'working'
      when 'succeeded' then 'ended'
      when 'failed' then 'ended'
      when 'cancelled' then 'ended'
    end
  ) stored,
  -- the schedule that it belongs to: of a due run, and of a run-now of a schedule
  schedule_id uuid,
  -- the trigger whose delivery started it, and its name then
  trigger_id uuid check ((trigger_id is not null) = (trigger = 'webhook')),
  trigger_name text,
  scheduled_for timestamptz(3) check ((scheduled_for is not null) = (trigger = 'schedule')),
  queued_at timestamptz(3) not null,
  started_at timestamptz(3),
  finished_at timestamptz(3) check ((finished_at is not null) = (phase = 'ended')),
  attempt integer not null default 1,
  model_id text,
  routing jsonb,
  -- sums of the steps
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cost_tokens bigint not null default 0,
  steps_count integer not null default 0,
  -- A cancelled run has an error if the service cancelled it, because its API key was revoked.
  error jsonb constraint run_error_check check (
    case when error is null then status <> 'failed' else status in ('failed', 'cancelling', 'cancelled') end
  ),
  output text,
  -- the output as JSON, if its agent or its caller has a schema for it
  output_json jsonb,
  -- what its caller or its schedule gave it: data for its prompts, pairs to find it by, and a run_prompt in place of the agent's
  input jsonb,
  metadata jsonb,
  run_prompt text,
  -- what the engine needs of its start: the conversation, and whose key pays; the queue does not read it
  engine_input jsonb not null,
  -- lower is earlier: a caller waits for a chat, but not for a schedule
  priority smallint not null,
  cancel_requested_at timestamptz(3),
  -- the worker that executes it, or for which it is reserved while it is queued
  worker_id text,
  lease_until timestamptz,
  -- counts the claims; a write under an earlier one is rejected
  epoch integer not null default 0,
  -- real time of the last claim, or since when a resumed run is queued again; and the execution time of the earlier workers
  claimed_at timestamptz,
  worked_ms bigint not null default 0,
  -- workers that it lost in the middle of a step since the last finished step
  losses integer not null default 0,
  -- its worker is on the node that started it, whose caller learns of the end without a notification
  started_by_own_node boolean not null default false,
  -- its API key and how many runs of the key may be at work at the same time, if the key has such a limit
  limited_key uuid,
  key_limit integer,
  -- failed steps, and how many of them were calls of tools: such a run ends with errors even if it succeeds
  failed_steps integer not null default 0,
  failed_calls integer not null default 0,
  -- the API key that started it, and the end user that its caller named: lists of runs are filtered by them
  api_key_id uuid,
  end_user text,
  primary key (user_id, id),
  check (phase <> 'working' or (worker_id is not null and lease_until is not null)),
  -- It belongs to no worker, so that any node resumes it.
  check (phase <> 'waiting' or (worker_id is null and lease_until is null))
) with (fillfactor = 70);
create index run_by_agent on run (user_id, agent_id, id);
create index run_queued on run (user_id, priority, id) where phase = 'queued';
create index run_queue_order on run (priority, id) where phase = 'queued';
create index run_cancelling on run (id) where status = 'cancelling';
create index run_leased on run (lease_until) where phase <> 'ended' and lease_until is not null;
-- The runs of a user that wait are counted before another one waits.
create index run_waiting on run (user_id) where phase = 'waiting';
create index run_open on run (user_id, agent_id) where phase <> 'ended';
create index run_ended on run (finished_at, user_id, id) where finished_at is not null;
-- Runs of all users, newest first, and the failed ones among them.
create index run_newest on run (id);
create index run_failed on run (id) where status = 'failed';
-- Runs at work of limited keys: a claim counts them.
create index run_of_limited_key on run (user_id, limited_key) where limited_key is not null and phase = 'working';
-- A user's failed and cancelled runs are counted, because such a run may have cost nothing.
create index run_unsuccessful on run (user_id, id)
  where finished_at is not null and status <> 'succeeded' and trigger <> 'schedule';
-- The operator looks for runs with errors among the runs of all users.
create index run_with_errors on run (id) where status = 'failed' or failed_calls > 0;

-- A user's list of all runs, and its filters. They have ended runs only, so that a run enters them once, at its end;
-- unfinished runs are few, and are found by run_open.
create index run_ended_of_user on run (user_id, queued_at, id) where finished_at is not null;
create index run_ended_agent on run (user_id, agent_id, queued_at, id) where finished_at is not null;
create index run_ended_status on run (user_id, status, queued_at, id) where finished_at is not null;
create index run_ended_with_errors on run (user_id, queued_at, id) where finished_at is not null and (status = 'failed' or failed_calls > 0);
create index run_ended_trigger on run (user_id, trigger, queued_at, id) where finished_at is not null;
create index run_ended_schedule on run (user_id, schedule_id, queued_at, id) where finished_at is not null and schedule_id is not null;
create index run_ended_api_key on run (user_id, api_key_id, queued_at, id) where finished_at is not null and api_key_id is not null;
create index run_ended_end_user on run (user_id, end_user, queued_at, id) where finished_at is not null and end_user is not null;
-- Words and metadata of ended runs, each with its user, so that a search reads no other user's runs. New entries go to a list
-- that a sweep merges into the index: at the end of a run that would take too long. src/agents/runs/search.store.ts has the
-- same expressions.
create index run_words on run using gin ((
  to_tsvector('simple', translate(
    left(coalesce(output, ''), 8000) || ' ' || coalesce(error ->> 'code', '') || ' ' || left(coalesce(error ->> 'message', ''), 1000)
      || ' ' || replace(left(coalesce(input::text, ''), 2000), '\n', ' '),
    '-_/.:@+<>&', '          '
  )) || array_to_tsvector(array[user_id::text])
)) with (gin_pending_list_limit = 16384) where finished_at is not null;
create index run_metadata on run using gin ((('["' || user_id::text || '"]')::jsonb || metadata) jsonb_path_ops)
  with (gin_pending_list_limit = 16384) where finished_at is not null and metadata is not null;

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
  -- of a call that a model asked for: its place among the calls of that answer. Calls that must be approved come last.
  call integer,
  primary key (user_id, run_id, index),
  foreign key (user_id, run_id) references run on delete cascade
);

-- A decision that a run waits for, or waited for: on a call of a tool, or on more tokens.
create table run_action (
  user_id uuid not null,
  run_id uuid not null,
  id uuid not null,
  type text not null check (type in ('tool_approval', 'budget')),
  -- of a call: the step of the answer that asks for it, its place among the calls of that answer, and the index that its step will have
  turn integer,
  call integer,
  step integer,
  tool text,
  -- what was shown, and what is sent if it is approved
  arguments jsonb,
  -- the JSON Schema by which other arguments are checked; null: the tool has its own check
  parameters json,
  destination text,
  -- of a run that has reached a limit of tokens: what it needs (budget-need.ts)
  budget jsonb,
  reason text not null,
  -- the outside content that the run had read: [{step, source}]
  untrusted_sources jsonb not null default '[]',
  spent_tokens bigint not null,
  requested_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- null while it is open
  decision text check (decision in ('approved', 'edited', 'rejected', 'expired', 'cancelled')),
  reason_given text,
  -- what the call sends; null for all others
  arguments_sent jsonb,
  decided_at timestamptz(3) check ((decided_at is null) = (decision is null)),
  -- {type, id, name}; null: nobody
  decided_by jsonb,
  primary key (user_id, run_id, id),
  -- A call is asked about once.
  unique (user_id, run_id, turn, call),
  foreign key (user_id, run_id) references run on delete cascade,
  check ((budget is not null) = (type = 'budget')),
  check (type <> 'tool_approval' or (turn is not null and call is not null and tool is not null)),
  check ((arguments_sent is not null) = (type = 'tool_approval' and decision is not null and decision in ('approved', 'edited')))
);
create index run_action_due on run_action (expires_at) where decision is null;
-- Runs that wait for tokens: a sweep looks whether they have come.
create index run_action_budget on run_action (user_id, run_id, id) where type = 'budget' and decision is null;

-- How many runs of each user are at work, so that a claim does not count them. The nil UUID has the sum of all users.
create table runs_at_work (
  user_id uuid primary key,
  runs integer not null
) with (fillfactor = 50);
insert into runs_at_work (user_id, runs) values ('00000000-0000-0000-0000-000000000000', 0);

-- Changes of these numbers that no claim has added yet. The transaction that begins or ends a run inserts its change, so
-- runs that end at the same time do not wait for each other.
create table runs_at_work_change (
  user_id uuid not null,
  change integer not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Ended runs that cost nothing, for a day, with the bytes that they store. They have a limit per user and day.
create table free_run (
  user_id uuid not null,
  run_id uuid not null,
  ended_at timestamptz(3) not null,
  bytes bigint not null,
  primary key (user_id, run_id)
);
create index free_run_by_age on free_run (ended_at);
