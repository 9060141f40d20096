-- Writes the entries and usage events of a batch, and adds the events to their day.
create or replace function ledger_write_charges(entries entry[], events usage_event[], instant timestamptz) returns void
language plpgsql as $$
declare
  none constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  insert into entry (user_id, seq, type, amount, balance_after, bucket_id, source, hold_id, model, agent_id, run_id,
      request_id, api_key_id, description, created_at, hash)
    select user_id, seq, type, amount, balance_after, bucket_id, source, hold_id, model, agent_id, run_id,
        request_id, api_key_id, description, created_at, hash
      from unnest(entries);
  if events is null then
    return;
  end if;
  insert into usage_event (user_id, hold_id, request_id, api_key_id, agent_id, run_id, model,
      input_tokens, cached_input_tokens, output_tokens, input_rate_micro, cached_input_rate_micro, output_rate_micro,
      requested, held, slice_buckets, slice_tokens, cost, charged, overage, absorbed,
      entries_after, entries_to, created_at, price_version, estimate, from_progress, cache_write_tokens,
      cache_write_1h_tokens, cache_write_rate_micro, cache_write_1h_rate_micro, upstream_cost_micro_usd,
      labels, api, duration_ms, first_token_ms)
    select user_id, hold_id, request_id, api_key_id, agent_id, run_id, model,
        input_tokens, cached_input_tokens, output_tokens, input_rate_micro, cached_input_rate_micro, output_rate_micro,
        requested, held, slice_buckets, slice_tokens, cost, charged, overage, absorbed,
        entries_after, entries_to, created_at, price_version, estimate, from_progress, cache_write_tokens,
        cache_write_1h_tokens, cache_write_rate_micro, cache_write_1h_rate_micro, upstream_cost_micro_usd,
        labels, api, duration_ms, first_token_ms
      from unnest(events);
  insert into usage_daily as known (user_id, day, model, agent_id, api_key_id, requests, input_tokens, cached_input_tokens,
      cache_write_tokens, output_tokens, cost, upstream_cost_micro_usd)
    select user_id, (instant at time zone 'UTC')::date, model, coalesce(agent_id, none), coalesce(api_key_id, none),
        count(*), sum(input_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens),
        sum(cost), coalesce(sum(upstream_cost_micro_usd), 0)
      from unnest(events) group by 1, 2, 3, 4, 5
    on conflict (user_id, day, model, agent_id, api_key_id) do update set
      requests = known.requests + excluded.requests,
      input_tokens = known.input_tokens + excluded.input_tokens,
      cached_input_tokens = known.cached_input_tokens + excluded.cached_input_tokens,
      cache_write_tokens = known.cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cost = known.cost + excluded.cost,
      upstream_cost_micro_usd = known.upstream_cost_micro_usd + excluded.upstream_cost_micro_usd;
end $$;
