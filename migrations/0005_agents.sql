-- Agents: what a user configured. When an agent runs is scheduling's; what it did is in its runs.

create table agent (
  user_id uuid not null,
  id uuid not null,
  -- bumped by each change; agent_version keeps what every number stood for
  version integer not null check (version > 0),
  name text not null,
  description text,
  system_prompt text,
  run_prompt text,
  -- as the user wrote it: a model's id or UUID
  model_id text,
  auto_route boolean not null,
  is_active boolean not null,
  tools_config jsonb not null,
  schedule_enabled boolean not null,
  schedule_interval text check (schedule_interval in ('daily', 'weekly', 'monthly')),
  schedule_time text check (schedule_time ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'),
  schedule_day_of_week text,
  -- 1 to 31, or "last"
  schedule_day_of_month jsonb,
  schedule_timezone text not null,
  limits jsonb not null,
  -- failed runs, chats excepted, since the last one that succeeded
  consecutive_failures integer not null default 0,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- runs that are being cancelled and the ledger still name the id; every answer is 404 from here on
  deleted_at timestamptz(3),
  primary key (user_id, id),
  check (model_id is not null or auto_route),
  check (not schedule_enabled or (run_prompt is not null and schedule_interval is not null and schedule_time is not null))
);
create index agent_of_user on agent (user_id, id desc) where deleted_at is null;

-- The configuration that each version stood for: a run pins the one it started with.
create table agent_version (
  user_id uuid not null,
  agent_id uuid not null,
  version integer not null,
  config jsonb not null,
  created_at timestamptz(3) not null,
  primary key (user_id, agent_id, version),
  foreign key (user_id, agent_id) references agent (user_id, id)
);
