-- Agents as their users configured them. The schedules module knows when they run, the runs module what they did.

-- The present configuration of each agent.
create table agent (
  user_id uuid not null,
  id uuid not null,
  -- each change increments it; agent_version keeps every version
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
  -- JSON Schemas of a run's input and of its output, in their owner's order: a model writes its answer in that of the fields
  input_schema json,
  output_schema json,
  limits jsonb not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- A deleted agent keeps its row, because runs and ledger entries refer to it.
  deleted_at timestamptz(3),
  -- how its model is called; null: the model's default
  model_settings jsonb not null
    default '{"temperature": null, "top_p": null, "reasoning_effort": null, "max_output_tokens": null}',
  -- whether the agent, called as a model, offers the caller's tools to its model beside its own
  client_tools text not null default 'ignore' check (client_tools in ('ignore', 'pass')),
  -- where the results of its runs are sent: [{to, on, unless}]
  deliveries jsonb not null default '[]',
  -- how long a run waits for a decision
  approval_hours integer not null default 24,
  -- what a run does that reaches a limit of tokens
  on_budget text not null default 'fail' check (on_budget in ('fail', 'ask')),
  primary key (user_id, id),
  check (model_id is not null or auto_route)
);
create index agent_of_user on agent (user_id, id desc) where deleted_at is null;
create index agent_deleted on agent (deleted_at, user_id, id) where deleted_at is not null;

-- The configuration of each version. A run uses the version with which it started.
create table agent_version (
  user_id uuid not null,
  agent_id uuid not null,
  version integer not null,
  -- json, and not jsonb, for the order of fields in its schemas
  config json not null,
  created_at timestamptz(3) not null,
  primary key (user_id, agent_id, version),
  foreign key (user_id, agent_id) references agent (user_id, id)
);
