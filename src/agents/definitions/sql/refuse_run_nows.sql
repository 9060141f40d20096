-- The reason why each run-now is rejected, in order; null: it may begin. Agents that run stay active until the
-- transaction ends.
--
-- With `precondition`, the agent must still have the `version` of the request, and its user must be able to pay (`payers`)
-- unless its model `is_free`. `changed` and `unsure` make the caller check again.
create or replace function refuse_run_nows(runs jsonb, payers uuid[]) returns text[] language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  refusals text[];
begin
  with given as materialized (
    select * from rows from (jsonb_to_recordset(runs) as (user_id uuid, agent_id uuid, precondition jsonb)) with ordinality as run
  ), kept as materialized (
    select agent.user_id, agent.id, agent.version
    from (select distinct user_id, agent_id from given) as key join agent on agent.user_id = key.user_id and agent.id = key.agent_id
    where is_active and deleted_at is null
    order by agent.user_id, agent.id for key share of agent
  )
  select array_agg(case
      when kept.id is null then case when given.precondition is null then 'disabled' else 'changed' end
      when kept.version <> (given.precondition->>'version')::integer then 'changed'
      when not (given.precondition->>'is_free')::boolean and not given.user_id = any (payers) then 'unsure'
    end order by given.ordinality)
    into strict refusals
    from given left join kept on kept.user_id = given.user_id and kept.id = given.agent_id;
  return refusals;
end $$;
