-- Claims up to `most` queued runs for the worker. Users with the fewest running runs are first, then runs of higher
-- priority, then runs that were queued first. Claims are serialized, so the limits hold over all nodes.
--
-- The cost does not grow with the queue or with the runs at work: the front of the queue, the users in turn and their
-- numbers in runs_at_work are read. Each lookup has one plan, for any statistics: it asks for the order of an index, and
-- the settings rule out sorts and scans (runs/README.md, "Plans").
--
-- Users and plans may have limits of their own (the same as in run_user_limit, which would cost a call per user). If one
-- of a user's first queued runs has a limited API key, runs_past_limited_keys reads the user's runs.
create or replace function claim_runs(
  claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer, domain_now timestamptz,
  reserved_only boolean, of_plans jsonb
) returns setof run language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set enable_incremental_sort = off set jit = off
as $$
declare
  places integer;
  candidates uuid[];
  depth integer;
  -- reserved runs have priority 0
  last_priority smallint := case when reserved_only then 0 else 32767 end;
  user_ids uuid[];
  run_ids uuid[];
begin
  if not has_queued_runs() then return; end if;
  perform pg_advisory_xact_lock(7470626);
  places := least(most, total_limit - count_runs_at_work());
  if places <= 0 then return; end if;
  candidates := users_to_claim_for(greatest(100, places));
  -- The number of runs to read per user. All possible runs are read only if these were too few.
  depth := greatest(4, 4 * places / greatest(1, cardinality(candidates)));
  loop
    select array_agg(user_id), array_agg(id) into user_ids, run_ids from (
      select r.user_id, r.id
      from unnest(candidates) as candidate(user_id)
      left join runs_at_work as at_work using (user_id)
      left join users as own on own.id = candidate.user_id
      cross join lateral (
        select least(depth, greatest(0, least(user_limit, (own.limits ->> 'concurrent_runs')::integer, case when of_plans is not null then (
          select min((of_plans ->> (plan ->> 'id'))::integer) from subscription
            where subscription.user_id = candidate.user_id and status in ('active', 'past_due')
        ) end) - coalesce(at_work.runs, 0))) as runs
      ) as free
      cross join lateral (
        with first as materialized (
          select id, priority, limited_key from run
          where phase = 'queued' and user_id = any (array[candidate.user_id]) and priority <= last_priority
            and (worker_id = claimer or (worker_id is null and not reserved_only))
          order by user_id, priority, id
          limit free.runs
        ), limited as materialized (
          select exists (select from first where limited_key is not null) as are_limited
        )
        select candidate.user_id, id, priority, row_number() over (order by priority, id) as nth from (
          select id, priority from first where not (select are_limited from limited)
          union all
          select past.id, past.priority
          from runs_past_limited_keys(candidate.user_id, claimer, reserved_only, free.runs) as past
          where (select are_limited from limited)
        ) as free_runs
      ) as r
      order by coalesce(at_work.runs, 0) + r.nth, r.priority, r.id
      limit places
    ) as fairest;
    exit when depth >= places or cardinality(run_ids) = places;
    depth := places;
  end loop;

  return query
  with locked as materialized (
    -- skips a run that is being cancelled at this moment
    select queued.place from unnest(user_ids, run_ids) as chosen(user_id, id)
    cross join lateral (
      select ctid as place from run
      where run.user_id = any (array[chosen.user_id]) and run.id >= chosen.id and run.id <= chosen.id and phase || '' = 'queued'
      order by run.user_id, run.id limit 1 for update skip locked
    ) as queued
  )
  update run set status = 'running', epoch = run.epoch + 1, worker_id = claimer, claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => lease_ms / 1000.0),
    started_at = coalesce(run.started_at, domain_now), started_by_own_node = false
  from locked where run.ctid = locked.place
  returning run.*;
end $$;
