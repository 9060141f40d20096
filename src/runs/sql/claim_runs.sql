-- Claims up to `most` queued runs for the worker. Users with the fewest running runs are first, then runs of higher
-- priority, then runs that were queued first. Claims are serialized, so the limits hold over all nodes.
--
-- The cost does not grow with the queue or with the runs at work: the front of the queue, the users in turn and their
-- numbers in runs_at_work are read. The planner's settings make each lookup use an index.
--
-- Users and plans may have limits of their own (the same as in run_user_limit, which would cost a call per user). Users
-- with queued runs of limited API keys are read by runs_past_limited_keys.
create or replace function claim_runs(
  claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer, domain_now timestamptz,
  reserved_only boolean, of_plans jsonb
) returns setof run language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  places integer;
  candidates uuid[];
  depth integer;
  has_limited_keys boolean;
  user_ids uuid[];
  run_ids uuid[];
begin
  if not exists (select from run where status = 'queued') then return; end if;
  perform pg_advisory_xact_lock(7470626);
  places := least(most, total_limit - count_runs_at_work());
  if places <= 0 then return; end if;
  candidates := users_to_claim_for(greatest(100, places));
  -- The number of runs to read per user. All possible runs are read only if these were too few.
  depth := greatest(4, 4 * places / greatest(1, cardinality(candidates)));
  has_limited_keys := exists (select from run where status = 'queued' and limited_key is not null);
  loop
    select array_agg(user_id), array_agg(id) into user_ids, run_ids from (
      select r.user_id, r.id
      from unnest(candidates) as candidate(user_id)
      left join runs_at_work as at_work using (user_id)
      left join users as own on own.id = candidate.user_id
      cross join lateral (
        select greatest(0, least(user_limit, (own.limits ->> 'concurrent_runs')::integer, case when of_plans is not null then (
          select min((of_plans ->> (plan ->> 'id'))::integer) from subscription
            where subscription.user_id = candidate.user_id and status in ('active', 'past_due')
        ) end) - coalesce(at_work.runs, 0)) as runs,
        has_limited_keys and exists (
          select from run where user_id = candidate.user_id and status = 'queued' and limited_key is not null
        ) as with_limited_keys
      ) as free
      cross join lateral (
        select candidate.user_id, id, priority, row_number() over (order by priority, id) as nth from (
          select id, priority from run
          where user_id = candidate.user_id and status = 'queued' and not free.with_limited_keys
            and (worker_id = claimer or (worker_id is null and not reserved_only))
          order by priority, id
          limit least(depth, free.runs)
        ) as first
        union all
        select candidate.user_id, id, priority, row_number() over (order by priority, id) as nth
        from runs_past_limited_keys(candidate.user_id, claimer, reserved_only, least(depth, free.runs))
        where free.with_limited_keys
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
    select run.user_id, run.id from run join unnest(user_ids, run_ids) as chosen(user_id, id) using (user_id, id)
    where status = 'queued' for update of run skip locked
  )
  update run set status = 'running', epoch = run.epoch + 1, worker_id = claimer, claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => lease_ms / 1000.0),
    started_at = coalesce(run.started_at, domain_now), at_home = false
  from locked where run.user_id = locked.user_id and run.id = locked.id
  returning run.*;
end $$;
