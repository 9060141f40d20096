-- Replaces a charge that was made from progress by the real charge. `rest` has the full counts and rates; its cost is
-- only the difference, charged now. The usage of the first charge's day changes too.
create or replace function ledger_amend(rest usage_event) returns void language plpgsql as $$
declare
  none constant uuid := '00000000-0000-0000-0000-000000000000';
  known usage_event;
begin
  select * into strict known from usage_event where user_id = rest.user_id and hold_id = rest.hold_id;
  update usage_event set
      input_tokens = rest.input_tokens, cached_input_tokens = rest.cached_input_tokens,
      output_tokens = rest.output_tokens, input_rate_micro = rest.input_rate_micro,
      cached_input_rate_micro = rest.cached_input_rate_micro, output_rate_micro = rest.output_rate_micro,
      cache_write_tokens = rest.cache_write_tokens, cache_write_1h_tokens = rest.cache_write_1h_tokens,
      cache_write_rate_micro = rest.cache_write_rate_micro, cache_write_1h_rate_micro = rest.cache_write_1h_rate_micro,
      upstream_cost_micro_usd = rest.upstream_cost_micro_usd, price_version = rest.price_version, cost = known.cost + rest.cost, charged = known.charged + rest.charged,
      overage = known.overage + rest.overage, absorbed = known.absorbed + rest.absorbed,
      entries_to = rest.entries_to, from_progress = false,
      duration_ms = rest.duration_ms, first_token_ms = rest.first_token_ms
    where user_id = rest.user_id and hold_id = rest.hold_id;
  update usage_daily set
      input_tokens = input_tokens + rest.input_tokens - known.input_tokens,
      cached_input_tokens = cached_input_tokens + rest.cached_input_tokens - known.cached_input_tokens,
      cache_write_tokens = cache_write_tokens + rest.cache_write_tokens - known.cache_write_tokens,
      output_tokens = output_tokens + rest.output_tokens - known.output_tokens, cost = cost + rest.cost,
      upstream_cost_micro_usd = upstream_cost_micro_usd + coalesce(rest.upstream_cost_micro_usd, 0)
        - coalesce(known.upstream_cost_micro_usd, 0)
    where user_id = known.user_id and day = (known.created_at at time zone 'UTC')::date and model = known.model
      and agent_id = coalesce(known.agent_id, none) and api_key_id = coalesce(known.api_key_id, none);
  update usage_label_daily set
      input_tokens = input_tokens + rest.input_tokens - known.input_tokens,
      output_tokens = output_tokens + rest.output_tokens - known.output_tokens, cost = cost + rest.cost
    where user_id = known.user_id and day = (known.created_at at time zone 'UTC')::date
      and (name, value) in (select key, label.value from jsonb_each_text(known.labels) as label);
end $$;
