-- Whether any run is queued. Only run_queue_order gives this order without a sort, so the planner takes it for any
-- statistics (runs/README.md, "Plans").
create or replace function has_queued_runs() returns boolean language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
begin
  return exists (select from (select from run where phase = 'queued' order by priority, id limit 1) as first);
end $$;
