-- Decides on run-nows before they are queued: which users can pay (ledger), then which agents may run (agents).
with users as materialized (
  -- Materialized, so that each user is checked once and not for each run.
  select distinct user_id from jsonb_to_recordset($1::jsonb) as run(user_id uuid)
), payers as materialized (
  select array(select user_id from users where ledger_has_tokens(user_id, $2)) as ids
)
select array_to_json(refuse_run_nows($1::jsonb, payers.ids)) as refusals from payers
