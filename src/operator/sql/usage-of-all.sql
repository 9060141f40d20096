-- Usage of all users from $1 to before $2, by $3: model, user, plan or day. `revenue` is what the used tokens were sold for: of
-- each bucket the price paid / tokens granted x tokens used, and overage at its price ($4 micro USD a token).
with used as (
  select case $3 when 'model' then model when 'day' then (created_at at time zone 'UTC')::date::text else user_id::text end as name,
      count(*) as requests, sum(input_tokens + output_tokens) as tokens, sum(cost) as cost_tokens,
      sum(upstream_cost_micro_usd) as upstream, count(*) - count(upstream_cost_micro_usd) as unknown
    from usage_event where created_at >= $1 and created_at < $2 group by 1
), spent as (
  select case $3 when 'model' then model when 'day' then (created_at at time zone 'UTC')::date::text else user_id::text end as name,
      user_id, bucket_id, -sum(amount) as tokens
    from entry where created_at >= $1 and created_at < $2 and type in ('usage', 'overage') group by 1, 2, 3
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
