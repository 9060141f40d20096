-- Prices by class: what a call wrote to its provider's cache, at which rates, and what the call cost the operator.
-- No entry changes: their hashes cover no counts and no rates.

-- The checks are added as not valid: the service checks the rows after the commit, without an exclusive lock.
alter table usage_event
  -- the part of the input that the provider wrote to its cache; cached input is another part
  add column cache_write_tokens bigint not null default 0,
  -- the part of cache_write_tokens that the cache keeps for an hour
  add column cache_write_1h_tokens bigint not null default 0,
  -- null: the input rate
  add column cache_write_rate_micro bigint,
  -- null: the rate of other cache writes
  add column cache_write_1h_rate_micro bigint,
  -- by the provider's prices, before the margin; null: they are unknown
  add column upstream_cost_micro_usd bigint,
  add constraint usage_event_cache_write_tokens_check check (cache_write_tokens >= 0) not valid,
  add constraint usage_event_check2 check (cache_write_1h_tokens between 0 and cache_write_tokens) not valid,
  add constraint usage_event_cache_write_rate_micro_check check (cache_write_rate_micro >= 0) not valid,
  add constraint usage_event_cache_write_1h_rate_micro_check check (cache_write_1h_rate_micro >= 0) not valid,
  add constraint usage_event_upstream_cost_micro_usd_check check (upstream_cost_micro_usd >= 0) not valid,
  add constraint usage_event_input_parts_check check (cached_input_tokens + cache_write_tokens <= input_tokens) not valid;

alter table usage_daily
  add column cache_write_tokens bigint not null default 0,
  -- the sum of the known costs
  add column upstream_cost_micro_usd bigint not null default 0;
