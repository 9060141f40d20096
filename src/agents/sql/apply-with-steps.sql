-- A batch of the ledger that has steps of runs with it: their start with a hold, their end with a settle. One round trip
-- and one transaction: a step and its charge are there both or not at all.
--
-- The order is the same everywhere, so that no two batches wait for each other: accounts, runs, then the ledger's writes.
-- Each function reads what the one before it wrote, because the next takes its answer. Functions of two modules meet only
-- in a statement like this one; a function of either calls none of the other.
with riders as materialized (
  select ledger_lock_riders($1::json, $2) as list
), finished as materialized (
  select array_agg(place order by place) as places,
      case when count(*) > 0 then finish_steps(leave_failing_ends(jsonb_agg(argument order by place))) end as answers
    from riders cross join jsonb_to_recordset(riders.list) as rider(place integer, kind text, argument jsonb)
    where kind = 'finish_step'
), started as materialized (
  select array_agg(place order by place) as places,
      case when count(*) > 0 then start_steps(jsonb_agg(argument order by place)) end as answers
    from riders cross join finished cross join jsonb_to_recordset(riders.list) as rider(place integer, kind text, argument jsonb)
    where kind = 'start_step'
), verdict as (
  select unnest(places) as place, jsonb_array_elements(answers) as answer from finished
  union all
  select unnest(places), jsonb_array_elements(answers) from started
)
select ledger_apply_batch($1::json, $2, $3, (select jsonb_object_agg(place, answer) from verdict)) as outcomes
