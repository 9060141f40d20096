-- Deletes the usage events of some accounts that are planned for the month until $2, whose files are complete, and adds them
-- to the sums that stay.
with gone as (
  delete from usage_event u using archived_account s
    where s.user_id = any($1::uuid[]) and s.before = $2 and u.user_id = s.user_id
      and u.created_at < s.before and u.entries_to <= s.planned_seq
    returning u.*
), daily as (
  insert into archived_usage_daily as known (user_id, day, model, agent_id, api_key_id, requests, input_tokens,
      cached_input_tokens, cache_write_tokens, output_tokens, cost, upstream_cost_micro_usd, requests_of_unknown_cost)
    select user_id, (created_at at time zone 'UTC')::date, model,
        coalesce(agent_id, '00000000-0000-0000-0000-000000000000'),
        coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), count(*), sum(input_tokens),
        sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost),
        coalesce(sum(upstream_cost_micro_usd), 0), count(*) - count(upstream_cost_micro_usd)
      from gone group by 1, 2, 3, 4, 5
    on conflict (user_id, day, model, agent_id, api_key_id) do update set
      requests = known.requests + excluded.requests,
      input_tokens = known.input_tokens + excluded.input_tokens,
      cached_input_tokens = known.cached_input_tokens + excluded.cached_input_tokens,
      cache_write_tokens = known.cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cost = known.cost + excluded.cost,
      upstream_cost_micro_usd = known.upstream_cost_micro_usd + excluded.upstream_cost_micro_usd,
      requests_of_unknown_cost = known.requests_of_unknown_cost + excluded.requests_of_unknown_cost
), labels as (
  insert into archived_label_daily as known (user_id, name, value, day, requests, input_tokens, output_tokens, cost)
    select user_id, label.key, label.value, (created_at at time zone 'UTC')::date, count(*), sum(input_tokens),
        sum(output_tokens), sum(cost)
      from gone cross join jsonb_each_text(gone.labels) as label group by 1, 2, 3, 4
    on conflict (user_id, name, value, day) do update set
      requests = known.requests + excluded.requests,
      input_tokens = known.input_tokens + excluded.input_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cost = known.cost + excluded.cost
)
select count(*) as rows from gone
