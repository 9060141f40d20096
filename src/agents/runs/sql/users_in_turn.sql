-- Users with queued runs, at most `most`, beginning with the users after `after`. It steps through run_queued from user
-- to user, so a user with many runs costs no more than a user with one. The order is that of run_queued and needs no
-- sort, so the planner takes it for any statistics (runs/README.md, "Plans").
create or replace function users_in_turn(after uuid, most integer) returns setof uuid language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
declare
  waiting uuid := after;
  wrapped boolean := false;
begin
  for step in 1..most loop
    select user_id into waiting from run where phase = 'queued' and user_id > waiting order by user_id, priority, id limit 1;
    if not found then
      exit when wrapped;
      wrapped := true;
      select user_id into waiting from run where phase = 'queued' order by user_id, priority, id limit 1;
    end if;
    exit when waiting is null or (wrapped and waiting > after);
    return next waiting;
  end loop;
end $$;
