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
    started_at = coalesce(run.started_at, domain_now)
  from locked where run.user_id = locked.user_id and run.id = locked.id
  returning run.*;
end $$;

-- Records a step's outcome and adds its usage to the run, as a rider in the transaction that settles the model call.
-- False, and nothing is written, when the run has another owner by now or the step has its outcome already.
create function finish_step(step jsonb) returns boolean language plpgsql as $$
begin
  perform from run
  where user_id = (step->>'user_id')::uuid and id = (step->>'run_id')::uuid
    and epoch = (step->>'epoch')::integer and status in ('running', 'cancelling')
  for update;
  if not found then return false; end if;

  update run_step set
    status = step->>'status',
    result = nullif(step->'result', 'null'),
    error = nullif(step->'error', 'null'),
    safety = nullif(step->'safety', 'null'),
    usage = nullif(step->'usage', 'null'),
    internal = coalesce(nullif(step->'internal', 'null'), internal),
    finished_at = (step->>'finished_at')::timestamptz
  where user_id = (step->>'user_id')::uuid and run_id = (step->>'run_id')::uuid
    and index = (step->>'index')::integer and status = 'running';
  if not found then return false; end if;

  update run set
    input_tokens = input_tokens + coalesce((step->'usage'->>'input_tokens')::bigint, 0),
    output_tokens = output_tokens + coalesce((step->'usage'->>'output_tokens')::bigint, 0),
    cost_tokens = cost_tokens + coalesce((step->'usage'->>'cost_tokens')::bigint, 0),
    losses = 0
  where user_id = (step->>'user_id')::uuid and id = (step->>'run_id')::uuid;
  return true;
end $$;

-- Workers and waiters on every node hear of a change as soon as it is committed, whoever made it. Who inserts runs tells
-- of them himself, unless he has claimed them as well.
create function tell_run_changed() returns trigger language plpgsql as $$
begin
  case new.status
    when 'queued' then perform pg_notify('run_queued', '');
    when 'cancelling' then perform pg_notify('run_cancelling', new.id::text);
    else perform pg_notify('run_finished', new.id::text);
  end case;
  return null;
end $$;
create trigger run_changed after update of status on run for each row
  when (new.status <> old.status and new.status <> 'running') execute function tell_run_changed();
