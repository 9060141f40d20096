-- The arguments of finish_steps, without `ends` where the end of the run has effects outside of the run: a success after
-- failed runs resets a schedule's count of failures; deliveries and the user's endpoints get the result.
-- finishRun ends those runs.
create or replace function leave_ends_with_effects(steps jsonb) returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  with_effects uuid[];
begin
  select array_agg(agent.id) into with_effects
    from jsonb_to_recordset(steps) as step(user_id uuid, agent_id uuid, ends boolean)
    join agent on agent.user_id = step.user_id and agent.id = step.agent_id
    where step.ends and (agent.deliveries <> '[]' or exists (
      select from schedule
      where schedule.user_id = step.user_id and schedule.agent_id = step.agent_id
        and (schedule.consecutive_failures > 0 or schedule.deliveries <> '[]')
    ) or exists (
      select from webhook_endpoint as endpoint
      where endpoint.user_id = step.user_id and disabled_at is null and 'run.succeeded' = any (endpoint.events)
    ));
  if with_effects is null then
    return steps;
  end if;
  return (
    select jsonb_agg(case when (step->>'agent_id')::uuid = any (with_effects) then step - 'ends' else step end order by nth)
      from jsonb_array_elements(steps) with ordinality as given(step, nth)
  );
end $$;
