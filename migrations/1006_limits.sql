-- Budgets that start again, allowed models and limits of API keys and users.

alter table api_key
  -- null: the budget is for the whole life of the key; otherwise it starts again with each interval (UTC, weeks from Monday)
  add column budget_interval text,
  -- ids of models; null: all
  add column allowed_models jsonb,
  -- {requests_per_minute, tokens_per_minute, concurrent_runs}, each null for none; null: no limits
  add column limits jsonb,
  add constraint api_key_budget_interval_check check (budget_interval in ('day', 'week', 'month')) not valid,
  add constraint api_key_budget_interval_check1 check (budget_interval is null or budget_tokens is not null) not valid;

-- The budget of an interval is compared with the key's days.
create index usage_daily_by_key on usage_daily (user_id, api_key_id, day);

-- {requests_per_minute, tokens_per_minute, concurrent_runs, allowed_models} that the operator has set; null: none
alter table users add column limits jsonb;

-- What each limited key and user has used in the last minute, over all nodes. A lost row only forgets a minute.
create table limit_window (
  -- such as requests:key:{id}
  subject text primary key,
  -- quarters of a second since 1970, oldest first, and what was used in each
  slots bigint[] not null,
  amounts bigint[] not null,
  used_at timestamptz not null
) with (fillfactor = 50);
create index limit_window_by_use on limit_window (used_at);
