-- The tokens that an end user's budget leaves for a hold; null: there is no budget. Unwritten operations of this batch
-- count too: it adds `charges` and `holds`, and leaves out the holds in `ended`.
create or replace function ledger_end_user_left(
  of_user uuid, of_end_user text, instant timestamptz, charges usage_event[], holds hold[], ended uuid[]
) returns bigint language plpgsql stable as $$
declare
  budget end_user_budget;
  used bigint;
begin
  select * into budget from end_user_budget where user_id = of_user and end_user = of_end_user;
  if not found then return null; end if;
  select coalesce(sum(use.tokens), 0) into used from (
    select cost from usage_label_daily where user_id = of_user and name = 'user' and value = of_end_user
      and (budget.budget_interval is null
        or day >= date_trunc(budget.budget_interval, instant at time zone 'UTC')::date)
    union all
    select c.cost from unnest(charges) as c where c.user_id = of_user and c.labels ->> 'user' = of_end_user
    union all
    select h.held from hold h
      where h.user_id = of_user and h.end_user = of_end_user and h.id <> all (coalesce(ended, '{}'))
    union all
    select h.held from unnest(holds) as h where h.user_id = of_user and h.end_user = of_end_user
  ) as use(tokens);
  return greatest(0, budget.budget_tokens - used);
end $$;
