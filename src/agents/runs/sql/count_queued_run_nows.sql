-- The number of queued run-nows (priority 1) of a user, at most `most`. Only run_queued gives this order without a sort,
-- so the planner takes it for any statistics (runs/README.md, "Plans").
create or replace function count_queued_run_nows(of_user uuid, most integer) returns bigint language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
begin
  return (
    select count(*) from (
      select from run
      where phase = 'queued' and user_id = any (array[of_user]) and priority >= 1 and priority <= 1
      order by user_id, priority, id limit most
    ) as counted
  );
end $$;
