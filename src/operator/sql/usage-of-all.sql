-- Usage of all users from $1 to before $2 (starts of days), by $3: model, user, plan or day. The daily sums have all calls,
-- archived ones too. The revenue is what the used tokens were sold for: of each bucket the price paid / tokens granted x tokens
-- used, and overage at its price (a cent of the plan's currency for $4 tokens). It needs the entries, or the daily sums of
-- archived ones. `other_cents` has it by currency, in the units of the payments.
with used as (
  select case $3 when 'model' then model when 'day' then day::text else user_id::text end as name,
      sum(requests) as requests, sum(input_tokens + output_tokens) as tokens, sum(cost) as cost_tokens,
      sum(upstream_cost_micro_usd) as upstream
    from usage_daily
    where day >= ($1::timestamptz at time zone 'UTC')::date and day < ($2::timestamptz at time zone 'UTC')::date
    group by 1
), without_cost as (
  select user_id, model, (created_at at time zone 'UTC')::date as day, 1 as requests
    from usage_event where upstream_cost_micro_usd is null and created_at >= $1 and created_at < $2
  union all
  select user_id, model, day, requests_of_unknown_cost from archived_usage_daily
    where day >= ($1::timestamptz at time zone 'UTC')::date and day < ($2::timestamptz at time zone 'UTC')::date
      and requests_of_unknown_cost > 0
), unknown as (
  select case $3 when 'model' then model when 'day' then day::text else user_id::text end as name, sum(requests) as requests
    from without_cost group by 1
), entries as (
  select user_id, bucket_id, amount, case $3 when 'model' then model when 'day' then (created_at at time zone 'UTC')::date::text end as name,
      case when bucket_id is null then (created_at at time zone 'UTC')::date end as overage_day
    from entry where created_at >= $1 and created_at < $2 and type in ('usage', 'overage')
  union all
  select user_id, nullif(bucket_id, '00000000-0000-0000-0000-000000000000'), amount,
      case $3 when 'model' then model when 'day' then day::text end,
      case when bucket_id = '00000000-0000-0000-0000-000000000000' then day end
    from archived_entry_daily
    where day >= ($1::timestamptz at time zone 'UTC')::date and day < ($2::timestamptz at time zone 'UTC')::date
      and type in ('usage', 'overage')
), spent as (
  select coalesce(name, user_id::text) as name, user_id, bucket_id, overage_day, -sum(amount) as tokens
    from entries group by entries.name, user_id, bucket_id, overage_day
), plan as (
  select user_id::text as name, plan ->> 'id' as plan_id
    from subscription where $3 = 'plan' and status in ('active', 'past_due')
), paid as (
  select spent.name, p.currency, p.paid_cents * spent.tokens / p.tokens as cents
    from spent join payment p on p.user_id = spent.user_id and p.bucket_id = spent.bucket_id and p.tokens > 0
  union all
  select name, coalesce((
        select plan ->> 'currency' from subscription s
          where s.user_id = spent.user_id and periods > 0 and (created_at at time zone 'UTC')::date <= overage_day
          order by created_at desc limit 1
      ), 'usd'), spent.tokens / $4
    from spent where bucket_id is null
), sold as (
  select case $3 when 'plan' then plan.plan_id else paid.name end as name, currency, sum(cents) as cents
    from paid left join plan using (name) group by 1, 2
), revenue as (
  select name, sum(cents) filter (where currency = 'usd') as usd_cents,
      jsonb_object_agg(currency, cents) filter (where currency <> 'usd' and cents > 0) as other_cents
    from sold group by 1
), figures as (
  select case $3 when 'plan' then plan.plan_id else used.name end as name,
      sum(used.requests) as requests, sum(used.tokens) as tokens, sum(cost_tokens) as cost_tokens,
      case when coalesce(sum(unknown.requests), 0) = 0 then sum(upstream) end as upstream_cost_micro_usd,
      coalesce(sum(unknown.requests), 0) as requests_of_unknown_cost
    from used left join unknown using (name) left join plan using (name) group by 1
)
select figures.*, round(coalesce(usd_cents, 0) * 10000) as revenue_micro_usd, coalesce(other_cents, '{}') as other_cents
  from figures left join revenue on coalesce(revenue.name, '') = coalesce(figures.name, '')
  order by cost_tokens desc, figures.name
