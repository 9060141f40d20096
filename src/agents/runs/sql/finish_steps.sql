-- Records steps' outcomes, adds their usage and failures to the runs, and records the chosen model on the run. A step that `ends`
-- its run successfully ends it here, unless the run is being cancelled.
--
-- Returns for each step, in order: {"done", "ended"}. Not done, and nothing written, if another worker has claimed the
-- run or the step already has an outcome. With `is_awaited`, the answer of a step that
-- ended its run also has the `run`.
--
-- Also a hook of the ledger's settles, so the step and its charge commit together.
create or replace function finish_steps(steps jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  places tid[] := lock_leased_runs(steps);
  answers jsonb;
begin
  with given as materialized (
    select *, places[ordinality] as place from rows from (jsonb_to_recordset(steps) as (user_id uuid, run_id uuid, epoch integer, index integer, status text,
      result jsonb, error jsonb, safety jsonb, usage jsonb, internal jsonb, chosen jsonb, ends boolean, is_awaited boolean, output text, output_json jsonb,
      finished_at timestamptz)) with ordinality as step
  ), finished as (
    update run_step set status = given.status, result = given.result, error = given.error, safety = given.safety,
      usage = coalesce(given.usage, run_step.usage), internal = coalesce(given.internal, run_step.internal), finished_at = given.finished_at
    from given
    -- a range instead of an equality, so that the planner cannot read all steps in the order of their key
    where run_step.user_id = any (array[given.user_id]) and run_step.run_id >= given.run_id and run_step.run_id <= given.run_id
      and run_step.index = given.index and given.place is not null and run_step.status = 'running'
    returning given.*, (given.status = 'failed')::integer as failed,
      -- A failed step of a model that has a finish reason is an answer: filtered, cut off or empty. A call that its user rejected is no fault.
      (given.status = 'failed' and given.error->>'code' is distinct from 'call_rejected' and (run_step.type = 'tool' or coalesce(given.result ? 'finish_reason', false)))::integer as failed_call
  ), counted as (
    update run set
      input_tokens = run.input_tokens + coalesce((finished.usage->>'input_tokens')::bigint, 0),
      output_tokens = run.output_tokens + coalesce((finished.usage->>'output_tokens')::bigint, 0),
      cost_tokens = run.cost_tokens + coalesce((finished.usage->>'cost_tokens')::bigint, 0),
      failed_steps = run.failed_steps + finished.failed,
      failed_calls = run.failed_calls + finished.failed_call,
      losses = 0,
      model_id = coalesce(finished.chosen->>'model_id', run.model_id),
      routing = case when finished.chosen is null then run.routing else nullif(finished.chosen->'routing', 'null') end,
      status = case when finished.ends and run.status = 'running' then 'succeeded' else run.status end,
      output = case when finished.ends and run.status = 'running' then finished.output else run.output end,
      output_json = case when finished.ends and run.status = 'running' then nullif(finished.output_json, 'null') else run.output_json end,
      finished_at = case when finished.ends and run.status = 'running' then finished.finished_at else run.finished_at end,
      lease_until = case when finished.ends and run.status = 'running' then null else run.lease_until end
    from finished where run.ctid = finished.place
    returning finished.ordinality, run.status = 'succeeded' as ended
  )
  select jsonb_agg(jsonb_build_object('done', counted.ordinality is not null, 'ended', coalesce(counted.ended, false))
      order by given.ordinality)
    into strict answers from given left join counted on counted.ordinality = given.ordinality;
  -- A separate statement, because a statement does not see its own changes.
  if steps @? '$[*] ? (@.is_awaited == true)' then
    select jsonb_agg(case when done.detail is null then given.answer else given.answer || jsonb_build_object('run', done.detail) end
        order by given.nth)
      into strict answers
      from rows from (jsonb_array_elements(answers), jsonb_to_recordset(steps) as (user_id uuid, run_id uuid, is_awaited boolean))
        with ordinality as given(answer, user_id, run_id, is_awaited, nth)
      left join lateral run_details(given.user_id, given.run_id) as done(detail)
        on given.is_awaited and (given.answer->>'ended')::boolean;
  end if;
  return answers;
end $$;
