-- When agents run, and the result of each due instant.

-- A schedule of an agent. The one named default exists from the agent's creation: the agent's schedule_* fields show it.
create table schedule (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  name text not null,
  -- when it is due: ScheduleSpec in src/agents/schedules/spec.ts. While it is off, fields may be missing.
  spec jsonb not null,
  -- data for the prompts of its runs
  input jsonb,
  -- what its runs do; null: the agent's run_prompt
  run_prompt text,
  -- where the results of its runs are sent; null: as the agent's deliveries say
  deliveries jsonb,
  enabled boolean not null,
  -- null: it is off, its agent is disabled, or it has ended
  next_run_at timestamptz(3),
  -- not null: the schedule is paused, and due instants are recorded as skipped
  paused_reason text,
  -- paused for lack of tokens; it resumes when account.refills is higher
  resume_above bigint check (resume_above is null or paused_reason is not null),
  -- null: not paused
  paused_at timestamptz(3),
  -- The API key that enabled it: its runs count against the key's budget and stop with the key. Null: a session.
  api_key_id uuid,
  -- failed runs since the last success; of default also run-nows without a schedule
  consecutive_failures integer not null default 0,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (user_id, id),
  unique (user_id, agent_id, name),
  check (enabled or (next_run_at is null and api_key_id is null)),
  check (not enabled or spec ? 'interval'),
  check (paused_at is null or paused_reason is not null)
);
create index schedule_due on schedule (next_run_at) where next_run_at is not null;
create index schedule_waiting on schedule (user_id, id) where resume_above is not null;
create index schedule_of_key on schedule (user_id, api_key_id) where api_key_id is not null;
-- The end of a run looks for failures to reset.
create index schedule_failing on schedule (user_id, agent_id) where consecutive_failures > 0;

-- The result of one due instant of a schedule, also if no run began.
create table occurrence (
  user_id uuid not null,
  schedule_id uuid not null,
  at timestamptz(3) not null,
  agent_id uuid not null,
  state text not null check (state in ('run', 'skipped', 'missed')),
  reason text,
  run_id uuid check ((run_id is not null) = (state = 'run')),
  recorded_at timestamptz(3) not null,
  primary key (user_id, schedule_id, at)
);
create index occurrence_of_agent on occurrence (user_id, agent_id, at, schedule_id);
create index occurrence_recorded on occurrence (recorded_at);
