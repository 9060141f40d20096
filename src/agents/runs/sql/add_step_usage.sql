-- Adds the usage of model calls that steps make beside their own work, such as a judge's, to the steps and their runs.
-- Returns {"done": true} for each, in order: the call was made, so it is charged even if its run has ended meanwhile.
--
-- A hook of the ledger's settles, so the usage and its charge commit together.
create or replace function add_step_usage(calls jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  with spent as materialized (
    select user_id, run_id, index, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost_tokens) as cost_tokens
    from jsonb_to_recordset(calls) as call(user_id uuid, run_id uuid, index integer, input_tokens bigint, output_tokens bigint, cost_tokens bigint)
    group by user_id, run_id, index
  ), counted as (
    update run set input_tokens = run.input_tokens + spent.input_tokens, output_tokens = run.output_tokens + spent.output_tokens,
      cost_tokens = run.cost_tokens + spent.cost_tokens
    from (
      select user_id, run_id, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost_tokens) as cost_tokens
      from spent group by user_id, run_id
    ) as spent where run.user_id = spent.user_id and run.id = spent.run_id
  )
  update run_step set usage = jsonb_build_object(
      'input_tokens', spent.input_tokens + coalesce((run_step.usage->>'input_tokens')::bigint, 0),
      'output_tokens', spent.output_tokens + coalesce((run_step.usage->>'output_tokens')::bigint, 0),
      'total_tokens', spent.input_tokens + spent.output_tokens + coalesce((run_step.usage->>'total_tokens')::bigint, 0),
      'cost_tokens', spent.cost_tokens + coalesce((run_step.usage->>'cost_tokens')::bigint, 0))
    from spent where run_step.user_id = spent.user_id and run_step.run_id = spent.run_id and run_step.index = spent.index;
  return (select jsonb_agg(jsonb_build_object('done', true)) from jsonb_array_elements(calls));
end $$;
