-- Closed months of the ledger, moved to files (src/ledger/archive.service.ts). What the audit and the usage need of the moved
-- rows stays here as sums, so that both remain exact.

-- A month whose rows are moved, or were. The files belong to it; `files` is null until they are complete.
create table archive_month (
  month date primary key,
  -- the end of the month: rows of that instant and later stay
  before timestamptz(3) not null,
  phase text not null check (phase in ('planned', 'written', 'moved')),
  entries bigint not null,
  usage_events bigint not null,
  -- [{name, rows, bytes, sha256}], the manifest first
  files jsonb,
  moved_at timestamptz(3)
);
create unique index archive_month_at_work on archive_month ((true)) where phase <> 'moved';

-- The last moved entry of each account: its number, its hash and the balance after it.
create table archived_account (
  user_id uuid primary key,
  seq bigint not null default 0,
  hash bytea not null default decode(repeat('00', 32), 'hex'),
  balance bigint not null default 0,
  -- the rows that the current month moves: entries up to this number, and this many usage events
  planned_seq bigint not null,
  planned_events bigint not null,
  before timestamptz(3) not null,
  check (planned_seq >= seq)
);

-- Sums of moved entries. Without a model it is '', without a bucket the nil UUID.
create table archived_entry_daily (
  user_id uuid not null,
  day date not null,
  type text not null,
  model text not null,
  bucket_id uuid not null,
  amount bigint not null,
  -- what of it granted the bucket
  granted bigint not null,
  primary key (user_id, day, type, model, bucket_id)
);
create index archived_entry_daily_by_bucket on archived_entry_daily (user_id, bucket_id);

-- Sums of moved usage events, in the lines of usage_daily.
create table archived_usage_daily (
  user_id uuid not null,
  day date not null,
  model text not null,
  agent_id uuid not null,
  api_key_id uuid not null,
  requests bigint not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  upstream_cost_micro_usd bigint not null,
  requests_of_unknown_cost bigint not null,
  primary key (user_id, day, model, agent_id, api_key_id)
);

-- The same by label, in the lines of usage_label_daily.
create table archived_label_daily (
  user_id uuid not null,
  name text not null,
  value text not null,
  day date not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  primary key (user_id, name, value, day)
);
