-- The cost of an agent's calls since a day (UTC), and the tokens that they hold now. Unwritten operations of this batch
-- count too: it adds `charges` and `holds`, and leaves out the holds in `ended`.
create or replace function ledger_agent_use(
  of_user uuid, of_agent uuid, from_day date, charges usage_event[], holds hold[], ended uuid[],
  out spent bigint, out held bigint
) language sql stable as $$
  select coalesce(sum(use.spent), 0), coalesce(sum(use.held), 0) from (
    select cost, 0 from usage_daily where user_id = of_user and agent_id = of_agent and day >= from_day
    union all
    select c.cost, 0 from unnest(charges) as c where c.user_id = of_user and c.agent_id = of_agent
    union all
    select 0, h.held from hold h where h.user_id = of_user and h.agent_id = of_agent and h.id <> all (coalesce(ended, '{}'))
    union all
    select 0, h.held from unnest(holds) as h where h.user_id = of_user and h.agent_id = of_agent
  ) as use(spent, held)
$$;
