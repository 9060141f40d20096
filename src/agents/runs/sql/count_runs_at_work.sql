-- Brings runs_at_work up to date and returns the number of all runs at work. Call it under the lock of the claims: runs
-- begin only under this lock, so the number is never too low.
create or replace function count_runs_at_work() returns integer language plpgsql as $$
begin
  with taken as (
    delete from runs_at_work_change returning user_id, change
  ), summed as (
    select coalesce(user_id, '00000000-0000-0000-0000-000000000000') as user_id, sum(change) as change
    from taken group by grouping sets ((user_id), ()) having sum(change) <> 0
  )
  insert into runs_at_work (user_id, runs) select user_id, change from summed
  on conflict (user_id) do update set runs = runs_at_work.runs + excluded.runs;
  return coalesce((select runs from runs_at_work where user_id = '00000000-0000-0000-0000-000000000000'), 0);
end $$;
