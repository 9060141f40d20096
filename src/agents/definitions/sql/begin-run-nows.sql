-- Begins run-nows in one round trip: which users can pay (ledger), which run-nows are rejected (agents), and the runs
-- (scheduling).
--
-- A batch does not wait for the disk if all its callers wait for the ends of their runs: the charge of the first model
-- call makes both durable.
with users as materialized (
  -- Materialized, so that each user is checked once and not for each run.
  select distinct user_id from jsonb_to_recordset($1::jsonb) as run(user_id uuid)
), payers as materialized (
  select array(select user_id from users where ledger_has_tokens(user_id, $2)) as ids
), refused as materialized (
  select refuse_run_nows($1::jsonb, payers.ids) as refusals from payers
)
select begin_runs($1::jsonb, refused.refusals, $2, $3, $4, $5, $6, $7, $9::jsonb) as refusals,
    case when $8 then set_config('synchronous_commit', 'off', true) end
  from refused
