-- finish_steps, which leaves the end of a run to finishRun when that changes something in its agent. It is called by
-- ledger_apply, under the planner's settings of that.
create or replace function finish_steps_of_agents(steps jsonb) returns jsonb language plpgsql as $$
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
