-- The first queued runs of a user that a claim may begin, at most `most`. A run of a limited API key waits while as many runs of
-- the key are at work, and the runs behind it pass. The first 100 queued runs are considered; all of them are read only if
-- the first few are too few. The plan does not depend on statistics (runs/README.md, "Plans").
create or replace function runs_past_limited_keys(of_user uuid, claimer text, reserved_only boolean, most integer)
returns table (id uuid, priority smallint) language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
declare
  front integer := least(100, 2 * most);
  free uuid[];
  priorities smallint[];
  considered bigint;
begin
  if most < 1 then return; end if;
  loop
    with first as materialized (
      select run.id, run.priority, run.limited_key, run.key_limit from run
        where run.phase = 'queued' and run.user_id = any (array[of_user])
          and (run.worker_id = claimer or (run.worker_id is null and not reserved_only))
        order by run.user_id, run.priority, run.id limit front
    ), busy as materialized (
      select key.limited_key, (
          select count(*) from (
            select from run
            where run.user_id = any (array[of_user]) and run.limited_key >= key.limited_key and run.limited_key <= key.limited_key
              and run.phase = 'working'
            order by run.user_id, run.limited_key
          ) as at_work
        ) as runs
        from (select distinct first.limited_key from first) as key
    ), numbered as (
      select first.*, row_number() over (partition by first.limited_key order by first.priority, first.id) + busy.runs as place
        from first left join busy on busy.limited_key = first.limited_key
    )
    select array_agg(n.id order by n.priority, n.id) filter (where n.limited_key is null or n.place <= n.key_limit),
        array_agg(n.priority order by n.priority, n.id) filter (where n.limited_key is null or n.place <= n.key_limit), count(*)
      into free, priorities, considered from numbered as n;
    exit when front = 100 or considered < front or cardinality(free) >= most;
    front := 100;
  end loop;
  return query select * from unnest(free[:most], priorities[:most]);
end $$;
