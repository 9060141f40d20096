-- When agents run, and the result of each due instant.

-- One row per agent that has ever had a schedule.
create table schedule (
  user_id uuid not null,
  agent_id uuid not null,
  -- when it is due: ScheduleSpec in src/schedules/spec.ts
  spec jsonb not null,
  active boolean not null,
  next_run_at timestamptz(3),
  -- not null: the schedule is paused, and due instants are recorded as skipped
  paused_reason text,
  -- paused for lack of tokens; it resumes when account.refills is higher
  resume_above bigint check (resume_above is null or paused_reason is not null),
  -- null: not paused
  paused_at timestamptz(3),
  primary key (user_id, agent_id),
  -- An active schedule without a next instant would never run again.
  check (active = (next_run_at is not null)),
  check (paused_at is null or paused_reason is not null)
);
create index schedule_due on schedule (next_run_at) where active;
create index schedule_waiting on schedule (user_id, agent_id) where resume_above is not null;

-- The result of one due instant of an agent, also if no run began.
create table occurrence (
  user_id uuid not null,
  agent_id uuid not null,
  at timestamptz(3) not null,
  state text not null check (state in ('run', 'skipped', 'missed')),
  reason text,
  run_id uuid check ((run_id is not null) = (state = 'run')),
  recorded_at timestamptz(3) not null,
  primary key (user_id, agent_id, at)
);
create index occurrence_recorded on occurrence (recorded_at);
