-- ledger_apply_batch as nodes of 1.0 call it while they run beside nodes of this release. Their own function would write
-- rows of the tables of before. The release after removes this file and adds the function to RETIRED_FUNCTIONS.
create or replace function ledger_apply_batch(operations json, instant timestamptz, hold_seconds integer, verdicts jsonb)
returns json language sql as $$
  select ledger_apply_batch(
    operations, array(select distinct user_id from json_to_recordset(operations) as o(user_id uuid)), instant, hold_seconds, verdicts)
$$;
