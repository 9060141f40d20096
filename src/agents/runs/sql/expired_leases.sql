-- The keys of unfinished runs whose lease ended before an instant, oldest first. Only run_leased gives this order without
-- a sort, so the planner takes it for any statistics (runs/README.md, "Plans"). Valid leases are not read.
create or replace function expired_leases(before timestamptz) returns table (user_id uuid, id uuid) language plpgsql stable rows 10
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
begin
  return query select run.user_id, run.id from run
    where phase <> 'ended' and lease_until is not null and lease_until < before
    order by lease_until;
end $$;
