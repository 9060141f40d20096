-- The users whose queued runs a claim considers: the next `considered` users in turn, and those at the front of the queue.
create or replace function users_to_claim_for(considered integer) returns uuid[] language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
declare
  turn uuid;
  in_turn uuid[];
begin
  select user_id into turn from run_turn;
  in_turn := array(select users_in_turn(turn, considered));
  -- with fewer users than that, each claim considers all of them
  if cardinality(in_turn) = considered then update run_turn set user_id = in_turn[considered]; end if;
  return array(
    select unnest(in_turn)
    union
    select front.user_id from (
      select user_id from run where phase = 'queued' order by priority, id limit considered
    ) as front
  );
end $$;
