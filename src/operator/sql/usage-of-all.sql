-- Usage of all users from $1 to before $2, by $3: model, user, plan or day. `revenue` is what the used tokens were sold for: of
-- each bucket the price paid / tokens granted x tokens used, and overage at its price ($4 micro USD a token). Archived rows
-- count by their daily sums; $1 and $2 are the starts of days.
with events as (
  select user_id, (created_at at time zone 'UTC')::date as day, model, 1 as requests, input_tokens + output_tokens as tokens, cost,
      upstream_cost_micro_usd, (upstream_cost_micro_usd is null)::integer as unknown
    from usage_event where created_at >= $1 and created_at < $2
  union all
  select user_id, day, model, requests, input_tokens + output_tokens, cost, upstream_cost_micro_usd, requests_of_unknown_cost
    from archived_usage_daily
    where day >= ($1::timestamptz at time zone 'UTC')::date and day < ($2::timestamptz at time zone 'UTC')::date
), entries as (
  select user_id, (created_at at time zone 'UTC')::date as day, model, bucket_id, amount
    from entry where created_at >= $1 and created_at < $2 and type in ('usage', 'overage')
  union all
  select user_id, day, model, nullif(bucket_id, '00000000-0000-0000-0000-000000000000'), amount
    from archived_entry_daily
    where day >= ($1::timestamptz at time zone 'UTC')::date and day < ($2::timestamptz at time zone 'UTC')::date
      and type in ('usage', 'overage')
), used as (
  select case $3 when 'model' then model when 'day' then day::text else user_id::text end as name,
      sum(requests) as requests, sum(tokens) as tokens, sum(cost) as cost_tokens,
      sum(upstream_cost_micro_usd) as upstream, sum(unknown) as unknown
    from events group by 1
), spent as (
  select case $3 when 'model' then model when 'day' then day::text else user_id::text end as name,
      user_id, bucket_id, -sum(amount) as tokens
    from entries group by 1, 2, 3
), sold as (
  select name, sum(case when spent.bucket_id is null then spent.tokens * $4::numeric
      else coalesce(p.paid_cents * 10000.0 / p.tokens, 0) * spent.tokens end) as revenue
    from spent left join payment p on p.user_id = spent.user_id and p.bucket_id = spent.bucket_id and p.tokens > 0
    group by 1
), plan as (
  select user_id::text as name, plan ->> 'id' as plan_id
    from subscription where $3 = 'plan' and status in ('active', 'past_due')
)
select case $3 when 'plan' then plan.plan_id else used.name end as name,
    sum(requests) as requests, sum(used.tokens) as tokens, sum(cost_tokens) as cost_tokens,
    round(coalesce(sum(revenue), 0)) as revenue_micro_usd,
    case when sum(unknown) = 0 then sum(upstream) end as upstream_cost_micro_usd,
    sum(unknown) as requests_of_unknown_cost
  from used left join sold using (name) left join plan using (name)
  group by 1 order by 4 desc, 1
