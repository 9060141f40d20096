-- Claims up to $1 due deliveries, one per destination and none of the destinations $2, for $3 seconds. Users $4, who have
-- running tries, come last. The recursion jumps from destination to destination in the index, so one destination's backlog
-- does not hide the others.
with recursive queued as (
  (select destination_id from delivery where status = 'pending' order by destination_id limit 1)
  union all
  select (select d.destination_id from delivery d
    where d.status = 'pending' and d.destination_id > queued.destination_id order by d.destination_id limit 1)
  from queued where queued.destination_id is not null
), chosen as materialized (
  select first.* from queued cross join lateral (
    select user_id, id, destination_id, attempts, next_attempt_at from delivery d
    where d.status = 'pending' and d.destination_id = queued.destination_id and d.next_attempt_at <= clock_timestamp()
    order by d.next_attempt_at limit 1
  ) as first
  where queued.destination_id <> all($2::uuid[])
  order by first.user_id = any($4::uuid[]), first.attempts, first.next_attempt_at limit $1
), locked as materialized (
  select d.user_id, d.id, d.destination_id from delivery d join chosen using (user_id, id, destination_id)
  where d.status = 'pending' and d.next_attempt_at <= clock_timestamp() for update of d skip locked
), claimed as (
  update delivery d set attempts = d.attempts + 1, last_attempt_at = clock_timestamp(),
    next_attempt_at = clock_timestamp() + make_interval(secs => $3)
  from locked where d.user_id = locked.user_id and d.id = locked.id and d.destination_id = locked.destination_id
  returning d.*
)
select d.user_id, d.id, d.destination_id, d.attempts, coalesce(d.address, e.url) as url,
  extract(epoch from clock_timestamp() - d.queued_at)::float8 as age_s,
  d.run_id, d.unless_unchanged, d.endpoint_id, e.secret, e.former_secrets, n.event, n.data, n.created_at
from claimed d
left join notice n on n.user_id = d.user_id and n.id = d.notice_id
left join webhook_endpoint e on e.user_id = d.user_id and e.id = d.endpoint_id
