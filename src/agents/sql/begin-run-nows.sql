-- Begins run-nows in one round trip: who can pay (ledger), which are refused (agents), and the runs (scheduling). A batch
-- that only its own callers wait for does not wait for the disk: the charge of its first model call does, for both.
with payers as materialized (
  select array(
      select user_id from (select distinct user_id from jsonb_to_recordset($1::jsonb) as run(user_id uuid)) as users
        where ledger_has_tokens(user_id, $2)
    ) as ids
), refused as materialized (
  select refuse_run_nows($1::jsonb, payers.ids) as refusals from payers
)
select begin_runs($1::jsonb, refused.refusals, $2, $3, $4, $5, $6, $7) as refusals,
    case when $8 then set_config('synchronous_commit', 'off', true) end
  from refused
