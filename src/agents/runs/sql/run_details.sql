-- A run with its output and its steps; no row if the run does not exist. It is an SQL function so that the planner can
-- inline it into its callers' statements.
create or replace function run_details(of_user uuid, of_run uuid) returns setof jsonb language sql stable as $$
  select jsonb_build_object(
    'user_id', run.user_id, 'id', run.id, 'agent_id', run.agent_id, 'agent_version', run.agent_version,
    'trigger', run.trigger, 'status', run.status, 'schedule_id', run.schedule_id,
    'trigger_id', run.trigger_id, 'trigger_name', run.trigger_name, 'scheduled_for', run.scheduled_for, 'queued_at', run.queued_at,
    'started_at', run.started_at, 'finished_at', run.finished_at, 'attempt', run.attempt, 'model_id', run.model_id,
    'routing', run.routing, 'input_tokens', run.input_tokens, 'output_tokens', run.output_tokens,
    'cost_tokens', run.cost_tokens, 'steps_count', run.steps_count, 'failed_steps', run.failed_steps,
    'failed_calls', run.failed_calls, 'error', run.error, 'metadata', run.metadata,
    'input', run.input, 'run_prompt', run.run_prompt, 'input_safety', run.engine_input -> 'input_safety',
    'output', run.output, 'output_json', run.output_json,
    'deliveries', run_deliveries(run.user_id, run.id),
    'required_actions', case when run.status = 'requires_action' then run_actions(run.user_id, run.id, true) else '[]' end,
    'decisions', run_actions(run.user_id, run.id, false),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
          'index', step.index, 'type', step.type, 'name', step.name, 'status', step.status, 'arguments', step.arguments,
          'result', step.result, 'error', step.error, 'safety', step.safety, 'usage', step.usage,
          'started_at', step.started_at, 'finished_at', step.finished_at
        ) order by step.index), '[]')
      from run_step step where step.user_id = run.user_id and step.run_id = run.id
    ))
  from run where run.user_id = of_user and run.id = of_run
$$;
