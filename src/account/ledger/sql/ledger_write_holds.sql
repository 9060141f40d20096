-- Writes the holds that a batch has made.
create or replace function ledger_write_holds(holds hold[]) returns void language plpgsql as $$
begin
  insert into hold (user_id, id, api_key_id, requested, held, slice_buckets, slice_tokens, overage, expires_at, request_id,
      agent_id, run_id, estimate, end_user)
    select user_id, id, api_key_id, requested, held, slice_buckets, slice_tokens, overage, expires_at, request_id,
        agent_id, run_id, estimate, end_user
      from unnest(holds);
end $$;
