-- Addresses at which other services start runs of agents, and their deliveries. src/agents/triggers/README.md explains the
-- terms. All instants are the domain's time.

-- An address of an agent.
create table agent_trigger (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  name text not null,
  -- how a delivery proves its sender: Verify in the contract
  verify jsonb not null,
  -- sealed, not hashed, because signatures are made with it
  secret bytea not null,
  -- the secret before the last rotation, which is accepted until then
  former_secret bytea,
  former_secret_until timestamptz(3),
  -- values by path, all of which a delivery must have to start a run; null: every delivery does
  filter jsonb,
  -- the fields of a run's input, each with the path of its value; null: the whole body
  input_map jsonb,
  -- what its runs do; null: the agent's run_prompt
  run_prompt text,
  enabled boolean not null,
  -- the API key that its runs count against; null: the console
  api_key_id uuid,
  -- deliveries that did not prove their sender
  rejected_count bigint not null default 0,
  last_rejected_at timestamptz(3),
  last_rejected_reason text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (user_id, id),
  -- a delivery names the trigger alone
  unique (id),
  unique (user_id, agent_id, name),
  check ((former_secret is null) = (former_secret_until is null))
);

-- A delivery that proved its sender.
create table trigger_delivery (
  user_id uuid not null,
  id uuid not null,
  trigger_id uuid not null,
  -- the sender's name for it
  delivery_id text,
  -- what a repetition of it has in common with it; null: none is recognized
  key text,
  resent_from uuid,
  received_at timestamptz(3) not null,
  outcome text not null check (outcome in ('run', 'filtered', 'failed')),
  run_id uuid check ((run_id is not null) = (outcome = 'run')),
  error jsonb check ((error is not null) = (outcome = 'failed')),
  -- its body and headers, for sending it again
  content jsonb not null,
  bytes integer not null,
  -- how often it came
  attempts integer not null default 1,
  primary key (user_id, id),
  unique (trigger_id, key),
  foreign key (user_id, trigger_id) references agent_trigger on delete cascade
);
create index trigger_delivery_of_trigger on trigger_delivery (user_id, trigger_id, id);
create index trigger_delivery_by_age on trigger_delivery (received_at);

-- What a user's deliveries have stored on a day (UTC), which is limited.
create table trigger_day (
  user_id uuid not null,
  day date not null,
  deliveries integer not null,
  bytes bigint not null,
  primary key (user_id, day)
);
