-- Renews the leases of calls under way, and stores their progress. An expired lease is renewed too while its hold exists. It
-- skips locked holds, so it never waits and has no deadlock: a locked hold is about to end. It does not wait for the disk.
create or replace function ledger_progress(calls json, hold_seconds integer) returns void language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  update hold set expires_at = clock_timestamp() + make_interval(secs => hold_seconds),
      progress = coalesce(living.charge, hold.progress)
    from (
      select h.user_id, h.id, call.charge
        from json_to_recordset(calls) as call(user_id uuid, hold_id uuid, charge jsonb)
        join hold h on h.user_id = call.user_id and h.id = call.hold_id
        for update of h skip locked
    ) as living
    where hold.user_id = living.user_id and hold.id = living.id;
end $$;
