-- How many runs of a user may be at work: the least of the limit of all users, the user's own and that of the user's plan.
-- `of_plans` is {plan id: limit}. `most`: without a limit of the user's own.
--
-- It is not an SQL function, because the planner cannot inline this one, and would plan it again at each call.
create or replace function run_user_limit(of_user uuid, most integer, of_plans jsonb) returns integer language plpgsql stable as $$
begin
  return least(
    most,
    (select (limits ->> 'concurrent_runs')::integer from users where id = of_user),
    (
      select min((of_plans ->> (plan ->> 'id'))::integer) from subscription
        where of_plans is not null and user_id = of_user and status in ('active', 'past_due')
    )
  );
end $$;
