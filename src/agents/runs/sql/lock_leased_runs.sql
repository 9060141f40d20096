-- Locks the runs of these leases in the order of their ids. Returns the place (ctid) of each run's row, in the order given;
-- null if another worker has claimed the run or if it has ended. A locked row keeps its place until it is updated.
--
-- Each run is read by its key for any statistics: only run_pkey gives this order without a sort (runs/README.md, "Plans").
create or replace function lock_leased_runs(leases jsonb) returns tid[] language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
begin
  return (
    select array_agg(leased.place order by given.ordinality)
    from (
      select * from rows from (jsonb_to_recordset(leases) as (user_id uuid, run_id uuid, epoch integer)) with ordinality as lease
      order by user_id, run_id
    ) as given
    left join lateral (
      select ctid as place from run
      where user_id = any (array[given.user_id]) and id >= given.run_id and id <= given.run_id
        and epoch = given.epoch and phase || '' = 'working'
      order by user_id, id limit 1 for no key update
    ) as leased on true
  );
end $$;
