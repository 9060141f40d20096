-- Writes the intents of steps, again if a resumed run repeats one. Nothing is written for a run that is being cancelled
-- or that another worker has claimed. Returns for each step, in order: {"done", "state"}. Also a hook of the ledger's
-- holds.
create or replace function start_steps(steps jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  places tid[] := lock_leased_runs(steps);
  answers jsonb;
begin
  with given as materialized (
    select *, places[ordinality] as place from rows from (jsonb_to_recordset(steps) as (user_id uuid, run_id uuid, epoch integer, index integer, type text,
      name text, arguments jsonb, internal jsonb, call integer, started_at timestamptz)) with ordinality as step
  ), counted as (
    update run set steps_count = greatest(run.steps_count, given.index + 1)
    from given where run.ctid = given.place and run.status || '' = 'running'
    returning given.*
  ), step as (
    insert into run_step (user_id, run_id, index, type, name, status, arguments, internal, call, started_at)
    select user_id, run_id, index, type, name, 'running', arguments, internal, call, started_at from counted
    on conflict (user_id, run_id, index) do update set started_at = excluded.started_at, name = excluded.name, arguments = excluded.arguments,
      internal = coalesce(excluded.internal, run_step.internal)
    where run_step.status = 'running'
  )
  select jsonb_agg(jsonb_build_object('done', counted.ordinality is not null, 'state', case
        when counted.ordinality is not null then 'running'
        when given.place is not null then 'cancelling'
        else 'lost'
      end) order by given.ordinality)
    into strict answers from given left join counted on counted.ordinality = given.ordinality;
  return answers;
end $$;
