-- Begins run-nows with the worker of this node, if there are places for them and for all queued runs, so that no queued
-- run waits because of them, and none has a limited API key: such runs are queued. Otherwise returns null and writes nothing. `refusals` gives, in order, the reason why a
-- run does not begin, or null. Returns the same array; null: the run has begun, and the intent of its first_step is
-- written.
--
-- The planner's settings make each lookup use an index, independent of the table sizes when a session planned it.
create or replace function begin_runs(
  runs jsonb, refusals text[], domain_now timestamptz, claimer text, most integer, total_limit integer, user_limit integer,
  lease_ms integer, of_plans jsonb
) returns json language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
declare
  asked integer := jsonb_array_length(runs);
  places integer;
begin
  perform pg_advisory_xact_lock(7470626);
  places := least(most, total_limit - count_runs_at_work()) - asked;
  if places < 0 or places < (select count(*) from (
    select from run where phase = 'queued' order by priority, id limit places + 1
  ) as waiting) then
    return null;
  end if;
  if exists (
    select from (select user_id, count(*) as asked from jsonb_to_recordset(runs) as given(user_id uuid) group by user_id) as mine
    where mine.asked
      + coalesce((select at_work.runs from runs_at_work as at_work where at_work.user_id = mine.user_id), 0)
      + (select count(*) from (select from run where run.user_id = mine.user_id and phase = 'queued' limit user_limit) as waiting)
      > run_user_limit(mine.user_id, user_limit, of_plans)
  ) or exists (
    select from jsonb_to_recordset(runs) as given(engine_input jsonb) where engine_input #>> '{key_limits,concurrent_runs}' is not null
  ) then
    return null;
  end if;
  insert into run (user_id, id, agent_id, agent_version, schedule_id, trigger, status, queued_at, started_at, model_id, input, metadata, run_prompt,
    engine_input, priority, worker_id, claimed_at, lease_until, epoch, started_by_own_node, steps_count,
    api_key_id, end_user)
  select user_id, id, agent_id, agent_version, schedule_id, 'manual', 'running', domain_now, domain_now, model_id, nullif(input, 'null'), nullif(metadata, 'null'),
    run_prompt, engine_input, priority, claimer, clock_timestamp(), clock_timestamp() + make_interval(secs => lease_ms / 1000.0), 1, true,
    case when first_step is null then 0 else 1 end, (engine_input ->> 'api_key_id')::uuid, engine_input #>> '{labels,user}'
  from rows from (jsonb_to_recordset(runs) as (user_id uuid, id uuid, agent_id uuid, agent_version integer, schedule_id uuid, model_id text,
    input jsonb, metadata jsonb, run_prompt text, engine_input jsonb, priority smallint, first_step jsonb)) with ordinality as given
  where refusals[given.ordinality] is null;
  insert into run_step (user_id, run_id, index, type, name, status, arguments, internal, started_at)
  select user_id, id, 0, first_step->>'type', first_step->>'name', 'running', nullif(first_step->'arguments', 'null'),
    nullif(first_step->'internal', 'null'), domain_now
  from rows from (jsonb_to_recordset(runs) as (user_id uuid, id uuid, first_step jsonb)) with ordinality as given
  where refusals[given.ordinality] is null and first_step is not null;
  return coalesce(array_to_json(refusals), array_to_json(array_fill(null::text, array[asked])));
end $$;
