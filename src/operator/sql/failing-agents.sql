-- The agents of all users with the most failed runs among the runs that ended since $1, at most $2, with the last failure
-- of each. The sums of the window are in every row; without a failure there is one row of sums alone.
with of_agent as (
  select user_id, agent_id, count(*) as runs, count(*) filter (where status = 'failed') as failed_runs
    from run where finished_at >= $1 group by user_id, agent_id
), sums as (
  select coalesce(sum(runs), 0)::bigint as ended, coalesce(sum(failed_runs), 0)::bigint as failed,
      count(*) filter (where failed_runs > 0) as failing_agents
    from of_agent
), worst as (
  select * from of_agent where failed_runs > 0 order by failed_runs desc, runs, agent_id limit $2
)
select sums.*, worst.user_id, worst.agent_id, worst.runs, worst.failed_runs, u.email as user_email,
    case when a.deleted_at is null then a.name end as agent_name,
    r.id as last_run_id, r.finished_at as last_failed_at, r.error as last_error
  from sums left join worst on true
  left join users u on u.id = worst.user_id
  left join agent a on a.user_id = worst.user_id and a.id = worst.agent_id
  left join lateral (
    select id, finished_at, error from run
      where user_id = worst.user_id and agent_id = worst.agent_id and status = 'failed' and finished_at >= $1
      order by finished_at desc, id desc limit 1
  ) r on true
  order by worst.failed_runs desc nulls last, worst.runs, worst.agent_id
