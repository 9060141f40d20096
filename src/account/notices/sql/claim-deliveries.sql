-- Claims up to $1 due deliveries, one per endpoint and none of the endpoints $2, for $3 seconds. Users $4, who have running
-- tries, come last. The recursion jumps from endpoint to endpoint in the index, so one endpoint's backlog does not hide the
-- others.
with recursive queued as (
  (select endpoint_id from notice_delivery where status = 'pending' order by endpoint_id limit 1)
  union all
  select (select d.endpoint_id from notice_delivery d
    where d.status = 'pending' and d.endpoint_id > queued.endpoint_id order by d.endpoint_id limit 1)
  from queued where queued.endpoint_id is not null
), chosen as materialized (
  select first.* from queued cross join lateral (
    select user_id, notice_id, endpoint_id, attempts, next_attempt_at from notice_delivery d
    where d.status = 'pending' and d.endpoint_id = queued.endpoint_id and d.next_attempt_at <= clock_timestamp()
    order by d.next_attempt_at limit 1
  ) as first
  where queued.endpoint_id <> all($2::uuid[])
  order by first.user_id = any($4::uuid[]), first.attempts, first.next_attempt_at limit $1
), locked as materialized (
  select d.user_id, d.notice_id, d.endpoint_id from notice_delivery d join chosen using (user_id, notice_id, endpoint_id)
  where d.status = 'pending' and d.next_attempt_at <= clock_timestamp() for update of d skip locked
)
update notice_delivery d set attempts = d.attempts + 1, last_attempt_at = clock_timestamp(),
  next_attempt_at = clock_timestamp() + make_interval(secs => $3)
from locked
join notice n on n.user_id = locked.user_id and n.id = locked.notice_id
join webhook_endpoint e on e.user_id = locked.user_id and e.id = locked.endpoint_id
where d.user_id = locked.user_id and d.notice_id = locked.notice_id and d.endpoint_id = locked.endpoint_id
returning d.user_id, d.notice_id, d.endpoint_id, d.attempts, e.url, e.secret, n.event, n.data, n.created_at,
  extract(epoch from clock_timestamp() - d.queued_at)::float8 as age_s
