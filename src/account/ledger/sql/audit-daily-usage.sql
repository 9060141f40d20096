-- Audit: the days whose line in usage_daily differs from the sum of their usage events, archived ones included.
select user_id, format('%s %s', day, model) as detail from (
    select coalesce(d.user_id, u.user_id) as user_id, coalesce(d.day, u.day) as day, coalesce(d.model, u.model) as model,
        (d.requests, d.input_tokens, d.cached_input_tokens, d.cache_write_tokens, d.output_tokens, d.cost,
          d.upstream_cost_micro_usd) is distinct from
        (u.requests, u.input_tokens, u.cached_input_tokens, u.cache_write_tokens, u.output_tokens, u.cost,
          u.upstream_cost_micro_usd) as differs
      from usage_daily d full join (
        select user_id, day, model, agent_id, api_key_id, sum(requests) as requests, sum(input_tokens) as input_tokens,
            sum(cached_input_tokens) as cached_input_tokens, sum(cache_write_tokens) as cache_write_tokens,
            sum(output_tokens) as output_tokens, sum(cost) as cost,
            coalesce(sum(upstream_cost_micro_usd), 0) as upstream_cost_micro_usd
          from (
            select user_id, (created_at at time zone 'UTC')::date as day, model,
                coalesce(agent_id, '00000000-0000-0000-0000-000000000000') as agent_id,
                coalesce(api_key_id, '00000000-0000-0000-0000-000000000000') as api_key_id, 1 as requests, input_tokens,
                cached_input_tokens, cache_write_tokens, output_tokens, cost, upstream_cost_micro_usd
              from usage_event
            union all
            select user_id, day, model, agent_id, api_key_id, requests, input_tokens, cached_input_tokens,
                cache_write_tokens, output_tokens, cost, upstream_cost_micro_usd
              from archived_usage_daily
          ) all_events group by 1, 2, 3, 4, 5
      ) u on (u.user_id, u.day, u.model, u.agent_id, u.api_key_id) = (d.user_id, d.day, d.model, d.agent_id, d.api_key_id)
      ) both_sides where differs
