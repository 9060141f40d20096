-- Applies a batch of the ledger with the steps of runs: starts with a hold, ends and added usage with a settle. One round
-- trip and one transaction, so a step and its charge commit together.
--
-- Batches lock in the same order (accounts, runs, then the ledger's writes), so they cannot deadlock. Each function
-- sees the writes of the one before it, because it takes that function's result.
--
-- Functions of two modules meet only in a statement like this one. A function never calls a function of another module.
with hooks as materialized (
  select ledger_lock_hooks($1::json, $2, $5::jsonb, $3) as list
), finished as materialized (
  select array_agg(place order by place) as places,
      case when count(*) > 0 then finish_steps(leave_ends_with_effects(jsonb_agg(argument order by place))) end as answers
    from hooks cross join jsonb_to_recordset(hooks.list) as hook(place integer, kind text, argument jsonb)
    where kind = 'finish_step'
), started as materialized (
  select array_agg(place order by place) as places,
      case when count(*) > 0 then start_steps(jsonb_agg(argument order by place)) end as answers
    from hooks cross join finished cross join jsonb_to_recordset(hooks.list) as hook(place integer, kind text, argument jsonb)
    where kind = 'start_step'
), added as materialized (
  select array_agg(place order by place) as places,
      case when count(*) > 0 then add_step_usage(jsonb_agg(argument order by place)) end as answers
    from hooks cross join started cross join jsonb_to_recordset(hooks.list) as hook(place integer, kind text, argument jsonb)
    where kind = 'add_usage'
), verdict as (
  select unnest(places) as place, jsonb_array_elements(answers) as answer from finished
  union all
  select unnest(places), jsonb_array_elements(answers) from started
  union all
  select unnest(places), jsonb_array_elements(answers) from added
)
select ledger_apply_batch($1::json, $2, $3, $4, (select jsonb_object_agg(place, answer) from verdict)) as outcomes
