-- The number of queued runs, at most `most`, and since when the oldest has been queued: a run that had begun, since its last
-- claim or since it was resumed. For the latter, only the first run of each priority is read. Only run_queue_order gives this
-- order without a sort, so the planner takes it for any statistics (runs/README.md, "Plans").
create or replace function queue_figures(most integer, out queued bigint, out oldest timestamptz) language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
begin
  queued := (select count(*) from (select from run where phase = 'queued' order by priority, id limit most) as counted);
  oldest := (
    select min(first.since) from unnest(array[0, 1, 2]) as level(priority)
    cross join lateral (
      select coalesce(claimed_at, queued_at) as since from run
      where phase = 'queued' and run.priority >= level.priority and run.priority <= level.priority
      order by priority, id limit 1
    ) as first
  );
end $$;
