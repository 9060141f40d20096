-- Schedules, what became of each due instant, and runs, which are their own queue. src/scheduling/README.md explains
-- the terms. Domain time is timestamptz(3); leases are the server's real time.

-- When an agent runs. One row per agent that ever had a schedule.
create table schedule (
  user_id uuid not null,
  agent_id uuid not null,
  interval text not null check (interval in ('daily', 'weekly', 'monthly')),
  -- HH:MM in timezone
  time text not null,
  day_of_week text check ((day_of_week is not null) = (interval = 'weekly')),
  -- '1' to '31', or 'last'
  day_of_month text check ((day_of_month is not null) = (interval = 'monthly')),
  timezone text not null,
  active boolean not null,
  next_run_at timestamptz(3),
  -- not null: due instants go by, recorded as skipped
  paused_reason text,
  -- paused for want of tokens: until the account has been refilled more often than that
  resume_above bigint check (resume_above is null or paused_reason is not null),
  primary key (user_id, agent_id),
  -- "active" without a next run would be a schedule that is dead and does not know it
  check (active = (next_run_at is not null))
);
create index schedule_due on schedule (next_run_at) where active;
create index schedule_waiting on schedule (user_id, agent_id) where resume_above is not null;

-- One row per due instant and agent, whatever became of it.
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
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cost_tokens bigint not null default 0,
  steps_count integer not null default 0,
  error jsonb check ((error is not null) = (status = 'failed')),
  output text,
  -- what the engine needs to begin; this room does not look inside
  input jsonb not null,
  -- lower goes first: somebody waits for a chat, nobody for a schedule
  priority smallint not null,
  cancel_requested_at timestamptz(3),
  -- Who works on it, or, while it is queued, for whom it is reserved; lease_until says how long.
  worker_id text,
  lease_until timestamptz,
  -- counts the claims: what an earlier one writes is refused
  epoch integer not null default 0,
  -- when it was last claimed, and for how long earlier workers were at it: real time, without the time in the queue
  claimed_at timestamptz,
  worked_ms bigint not null default 0,
  -- workers it has lost in the middle of a step since it last finished one
  losses integer not null default 0,
  -- its worker is of the node that queued it, where whoever waits for it is
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

-- Whose turn it was last among the users with queued runs: one row.
create table run_turn (
  only_one boolean primary key default true check (only_one),
  user_id uuid not null
);
insert into run_turn (user_id) values ('00000000-0000-0000-0000-000000000000');

-- One model or tool call of a run. A row that is still 'running' is an intent whose outcome is not known yet.
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
  -- what a resumed run needs and no caller sees
  internal jsonb,
  primary key (user_id, run_id, index),
  foreign key (user_id, run_id) references run on delete cascade
);

-- Users with queued runs, those after `after` first, at most `most`. Leaps through run_queued from user to user, so that
-- one with ever so many runs costs no more than one with a single run.
create function users_in_turn(after uuid, most integer) returns setof uuid language plpgsql as $$
declare
  waiting uuid := after;
  wrapped boolean := false;
begin
  for step in 1..most loop
    select user_id into waiting from run where status = 'queued' and user_id > waiting order by user_id limit 1;
    if not found then
      exit when wrapped;
      wrapped := true;
      select user_id into waiting from run where status = 'queued' order by user_id limit 1;
    end if;
    exit when waiting is null or (wrapped and waiting > after);
    return next waiting;
  end loop;
end $$;

-- Makes up to `most` queued runs the worker's: of the users, the one with the fewest at work first; among equals what
-- has the higher priority, then what was queued first. The limits hold over all nodes, because claims go one at a time.
-- However long the queue is, only its front and the users whose turn it is are looked at.
create function claim_runs(
  claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer, domain_now timestamptz,
  reserved_only boolean
) returns setof run language plpgsql as $$
declare
  places integer;
  considered integer;
  turn uuid;
  in_turn uuid[];
  candidates uuid[];
  depth integer;
  user_ids uuid[];
  run_ids uuid[];
begin
  if not exists (select from run where status = 'queued') then return; end if;
  perform pg_advisory_xact_lock(7470626);
  places := least(most, total_limit - (select count(*) from run where status in ('running', 'cancelling')));
  if places <= 0 then return; end if;
  considered := greatest(100, places);

  select user_id into turn from run_turn;
  in_turn := array(select users_in_turn(turn, considered));
  -- with fewer users than that, everybody is looked at each time
  if cardinality(in_turn) = considered then update run_turn set user_id = in_turn[considered]; end if;

  candidates := array(
    select unnest(in_turn)
    union
    select front.user_id from (
      select user_id from run where status = 'queued' order by priority, id limit considered
    ) as front
  );
  -- So many runs of each are looked at; all that could be wanted only when that was too few.
  depth := greatest(4, 4 * places / greatest(1, cardinality(candidates)));
  loop
    select array_agg(user_id), array_agg(id) into user_ids, run_ids from (
      select r.user_id, r.id
      from unnest(candidates) as candidate(user_id)
      left join (
        select user_id, count(*)::integer as runs from run where status in ('running', 'cancelling') group by user_id
      ) as at_work using (user_id)
      cross join lateral (
        select user_id, id, priority, row_number() over (order by priority, id) as nth from run
        where user_id = candidate.user_id and status = 'queued' and (worker_id = claimer or (worker_id is null and not reserved_only))
        order by priority, id
        limit greatest(0, least(depth, user_limit - coalesce(at_work.runs, 0)))
      ) as r
      order by coalesce(at_work.runs, 0) + r.nth, r.priority, r.id
      limit places
    ) as fairest;
    exit when depth >= places or cardinality(run_ids) = places;
    depth := places;
  end loop;

  return query
  with locked as materialized (
    -- a run that is being cancelled this moment is passed over
    select run.user_id, run.id from run join unnest(user_ids, run_ids) as chosen(user_id, id) using (user_id, id)
    where status = 'queued' for update of run skip locked
  )
  update run set status = 'running', epoch = run.epoch + 1, worker_id = claimer, claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => lease_ms / 1000.0),
    started_at = coalesce(run.started_at, domain_now), at_home = false
  from locked where run.user_id = locked.user_id and run.id = locked.id
  returning run.*;
end $$;

-- Begins run-nows with the worker of the node that they are asked of, when there are places for them and for all that
-- waits, so that none of these could have wanted them; else null, and nothing is written. `admit` names the function
-- that answers, in order, why a run is refused, or null. Answers the same; null: it has begun, and the intent of its
-- first_step is written.
--
-- The planner's settings make each lookup one by index, whatever the tables' sizes were when a session planned it.
create function begin_run_nows(
  runs jsonb, admit text, claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer,
  domain_now timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  refusals text[];
  asked integer := jsonb_array_length(runs);
begin
  if admit is not null then
    execute format('select %I($1, $2)', admit) into strict refusals using runs, domain_now;
  end if;
  perform pg_advisory_xact_lock(7470626);
  if asked + (select count(*) from (select from run where status = 'queued' limit total_limit) as waiting)
    > least(most, total_limit - (select count(*) from run where status in ('running', 'cancelling')))
  then
    return null;
  end if;
  if exists (
    select from (select user_id, count(*) as asked from jsonb_to_recordset(runs) as given(user_id uuid) group by user_id) as mine
    where mine.asked
      + (select count(*) from run where run.user_id = mine.user_id and status in ('running', 'cancelling'))
      + (select count(*) from (select from run where run.user_id = mine.user_id and status = 'queued' limit user_limit) as waiting)
      > user_limit
  ) then
    return null;
  end if;
  insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, started_at, model_id, input, priority,
    worker_id, claimed_at, lease_until, epoch, at_home, steps_count)
  select user_id, id, agent_id, agent_version, 'manual', 'running', domain_now, domain_now, model_id, input, priority,
    claimer, clock_timestamp(), clock_timestamp() + make_interval(secs => lease_ms / 1000.0), 1, true,
    case when first_step is null then 0 else 1 end
  from rows from (jsonb_to_recordset(runs) as (user_id uuid, id uuid, agent_id uuid, agent_version integer, model_id text,
    input jsonb, priority smallint, first_step jsonb)) with ordinality as given
  where refusals[given.ordinality] is null;
  insert into run_step (user_id, run_id, index, type, name, status, arguments, internal, started_at)
  select user_id, id, 0, first_step->>'type', first_step->>'name', 'running', nullif(first_step->'arguments', 'null'),
    nullif(first_step->'internal', 'null'), domain_now
  from rows from (jsonb_to_recordset(runs) as (user_id uuid, id uuid, first_step jsonb)) with ordinality as given
  where refusals[given.ordinality] is null and first_step is not null;
  return coalesce(array_to_json(refusals), array_to_json(array_fill(null::text, array[asked])));
end $$;

-- Writes the intents of steps; again when a resumed run takes one up again. Nothing is written for a run that is being
-- cancelled, or that has another owner. Answers each in order: {"done", "state"}. Also a rider of the ledger's holds.
create function start_steps(steps jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  answers jsonb;
begin
  with given as materialized (
    select * from rows from (jsonb_to_recordset(steps) as (user_id uuid, run_id uuid, epoch integer, index integer, type text,
      name text, arguments jsonb, internal jsonb, started_at timestamptz)) with ordinality as step
    order by user_id, run_id
  ), counted as (
    update run set steps_count = greatest(run.steps_count, given.index + 1)
    from given where run.user_id = given.user_id and run.id = given.run_id and run.epoch = given.epoch and run.status = 'running'
    returning given.*
  ), step as (
    insert into run_step (user_id, run_id, index, type, name, status, arguments, internal, started_at)
    select user_id, run_id, index, type, name, 'running', arguments, internal, started_at from counted
    on conflict (user_id, run_id, index) do update set started_at = excluded.started_at, arguments = excluded.arguments,
      internal = coalesce(excluded.internal, run_step.internal)
    where run_step.status = 'running'
  )
  -- what was still seen as running and was not written for has changed meanwhile: it is being cancelled, or lost
  select jsonb_agg(jsonb_build_object('done', counted.ordinality is not null, 'state', case
        when counted.ordinality is not null then 'running'
        when exists (
          select from run where user_id = given.user_id and id = given.run_id and epoch = given.epoch
            and status in ('running', 'cancelling')
        ) then 'cancelling'
        else 'lost'
      end) order by given.ordinality)
    into strict answers from given left join counted on counted.ordinality = given.ordinality;
  return answers;
end $$;

-- A run with its output and its steps.
create function run_detail(of_user uuid, of_run uuid) returns jsonb language plpgsql stable as $$
begin
  return (
    select to_jsonb(detail) from (
      select user_id, id, agent_id, agent_version, trigger, status, scheduled_for, queued_at, started_at, finished_at, attempt,
        model_id, routing, input_tokens, output_tokens, cost_tokens, steps_count, error, output,
        array(
          select to_jsonb(step) from (
            select index, type, name, status, arguments, result, error, safety, usage, started_at, finished_at
            from run_step where user_id = of_user and run_id = of_run order by index
          ) as step
        ) as steps
      from run where user_id = of_user and id = of_run
    ) as detail
  );
end $$;

-- Records steps' outcomes, adds their usage to the runs, and names the model on the run where one was chosen. A step that
-- `ends` its run successfully ends it here, unless that is being cancelled. Answers each in order: {"done", "ended"}; not
-- done, and nothing written, when the run has another owner by now or the step has its outcome already. With `told`, the
-- answer of a step that ended its run has it as well: `run`. Also a rider of the ledger's settles, and so in one
-- transaction with the charge.
create function finish_steps(steps jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  answers jsonb;
begin
  with given as materialized (
    select * from rows from (jsonb_to_recordset(steps) as (user_id uuid, run_id uuid, epoch integer, index integer, status text,
      result jsonb, error jsonb, safety jsonb, usage jsonb, internal jsonb, chosen jsonb, ends boolean, told boolean, output text,
      finished_at timestamptz)) with ordinality as step
  ), owned as materialized (
    select given.* from given join run on run.user_id = given.user_id and run.id = given.run_id
    where run.epoch = given.epoch and run.status in ('running', 'cancelling')
    order by run.user_id, run.id for no key update of run
  ), finished as (
    update run_step set status = owned.status, result = owned.result, error = owned.error, safety = owned.safety,
      usage = owned.usage, internal = coalesce(owned.internal, run_step.internal), finished_at = owned.finished_at
    from owned
    where run_step.user_id = owned.user_id and run_step.run_id = owned.run_id and run_step.index = owned.index
      and run_step.status = 'running'
    returning owned.*
  ), counted as (
    update run set
      input_tokens = run.input_tokens + coalesce((finished.usage->>'input_tokens')::bigint, 0),
      output_tokens = run.output_tokens + coalesce((finished.usage->>'output_tokens')::bigint, 0),
      cost_tokens = run.cost_tokens + coalesce((finished.usage->>'cost_tokens')::bigint, 0),
      losses = 0,
      model_id = coalesce(finished.chosen->>'model_id', run.model_id),
      routing = case when finished.chosen is null then run.routing else nullif(finished.chosen->'routing', 'null') end,
      status = case when finished.ends and run.status = 'running' then 'succeeded' else run.status end,
      output = case when finished.ends and run.status = 'running' then finished.output else run.output end,
      finished_at = case when finished.ends and run.status = 'running' then finished.finished_at else run.finished_at end,
      lease_until = case when finished.ends and run.status = 'running' then null else run.lease_until end
    from finished where run.user_id = finished.user_id and run.id = finished.run_id
    returning finished.ordinality, run.status = 'succeeded' as ended
  )
  select jsonb_agg(jsonb_build_object('done', counted.ordinality is not null, 'ended', coalesce(counted.ended, false))
      order by given.ordinality)
    into strict answers from given left join counted on counted.ordinality = given.ordinality;
  for nth in 0 .. jsonb_array_length(steps) - 1 loop
    if (steps->nth->>'told')::boolean and (answers->nth->>'ended')::boolean then
      answers := jsonb_set(answers, array[nth::text, 'run'],
        run_detail((steps->nth->>'user_id')::uuid, (steps->nth->>'run_id')::uuid));
    end if;
  end loop;
  return answers;
end $$;

-- Workers and waiters on every node hear of a change as soon as it is committed, whoever made it. Who inserts runs tells
-- of them himself, unless he has claimed them as well. Of the end of a run at home only those need to hear for whom it
-- may make a place.
create function tell_run_changed() returns trigger language plpgsql as $$
begin
  case new.status
    when 'queued' then perform pg_notify('run_queued', '');
    when 'cancelling' then perform pg_notify('run_cancelling', new.id::text);
    else
      if not new.at_home or exists (select from run where status = 'queued') then
        perform pg_notify('run_finished', new.id::text);
      end if;
  end case;
  return null;
end $$;
create trigger run_changed after update of status on run for each row
  when (new.status <> old.status and new.status <> 'running') execute function tell_run_changed();
