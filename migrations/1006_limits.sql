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

-- Labels of a call, for the usage of a reseller's own customers: {"user": …, "metadata.{name}": …}; null: none.
alter table usage_event add column labels jsonb;
-- the end user of the call, whose budget counts the hold
alter table hold add column end_user text;
create index hold_by_end_user on hold (user_id, end_user) where end_user is not null;

-- Sums of usage_event by UTC day and label, written in the same transaction.
create table usage_label_daily (
  user_id uuid not null,
  -- user, or metadata.{name}
  name text not null,
  value text not null,
  day date not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  primary key (user_id, name, value, day)
) with (fillfactor = 50);
create index usage_label_daily_by_day on usage_label_daily (user_id, name, day);

-- What the calls of an end user may cost: the `user` of requests, a customer of this user.
create table end_user_budget (
  user_id uuid not null,
  end_user text not null,
  budget_tokens bigint not null check (budget_tokens >= 0),
  budget_interval text check (budget_interval in ('day', 'week', 'month')),
  primary key (user_id, end_user)
);
