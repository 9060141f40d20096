-- The failed runs that were queued from $1 to before $2 (null: until now), of one user ($3) or of all, by user, agent and
-- error: how many, and the last one. At most $4 groups, the largest first. The first condition is for the index run_ended:
-- no run ends before it is queued.
with failed as (
  select user_id, agent_id, coalesce(error ->> 'code', 'internal') as error_code, count(*) as runs,
      (array_agg(id order by queued_at desc, id desc))[1] as last_run_id, max(queued_at) as last_at
    from run
    where finished_at >= $1 and status = 'failed' and queued_at >= $1 and ($2::timestamptz is null or queued_at < $2)
      and ($3::uuid is null or user_id = $3)
    group by 1, 2, 3
    order by count(*) desc, max(queued_at) desc, user_id, agent_id, 3 limit $4
)
select failed.*, r.error ->> 'message' as last_message, u.email as user_email, a.name as agent_name,
    a.id is null or a.deleted_at is not null as agent_deleted
  from failed
  join run r on r.user_id = failed.user_id and r.id = failed.last_run_id
  left join users u on u.id = failed.user_id
  left join agent a on a.user_id = failed.user_id and a.id = failed.agent_id
  order by runs desc, last_at desc, user_id, agent_id, error_code
