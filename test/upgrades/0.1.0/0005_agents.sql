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

-- Why run-nows are refused, in order; null: they may begin. Agents that run stay so until the transaction ends. With
-- `terms`, what was known of the agent when it was asked for must still hold (`version`), and unless its model `is_free`
-- its user must have tokens: `changed` and `unsure` have the caller look again.
create function admit_run_nows(runs jsonb, instant timestamptz) returns text[] language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  refusals text[];
begin
  with given as materialized (
    select * from rows from (jsonb_to_recordset(runs) as (user_id uuid, agent_id uuid, terms jsonb)) with ordinality as run
  ), kept as materialized (
    select agent.user_id, agent.id, agent.version
    from (select distinct user_id, agent_id from given) as key join agent on agent.user_id = key.user_id and agent.id = key.agent_id
    where is_active and deleted_at is null
    order by agent.user_id, agent.id for key share of agent
  ), paying as materialized (
    select user_id, ledger_has_tokens(user_id, instant) as can_pay from (select distinct user_id from given) as users
  )
  select array_agg(case
      when kept.id is null then case when given.terms is null then 'disabled' else 'changed' end
      when kept.version <> (given.terms->>'version')::integer then 'changed'
      when not (given.terms->>'is_free')::boolean and not paying.can_pay then 'unsure'
    end order by given.ordinality)
    into strict refusals
    from given
    left join kept on kept.user_id = given.user_id and kept.id = given.agent_id
    left join paying on paying.user_id = given.user_id;
  return refusals;
end $$;

-- finish_steps, which leaves the end of a run to finishRun when that changes something in its agent. It is called by
-- ledger_apply, under the planner's settings of that.
create function finish_steps_of_agents(steps jsonb) returns jsonb language plpgsql as $$
declare
  failing uuid[];
begin
  select array_agg(agent.id) into failing
    from jsonb_to_recordset(steps) as step(user_id uuid, agent_id uuid, ends boolean)
    join agent on agent.user_id = step.user_id and agent.id = step.agent_id
    where step.ends and agent.consecutive_failures > 0;
  if failing is not null then
    select jsonb_agg(case when (step->>'agent_id')::uuid = any (failing) then step - 'ends' else step end order by nth)
      into strict steps from jsonb_array_elements(steps) with ordinality as given(step, nth);
  end if;
  return finish_steps(steps);
end $$;
