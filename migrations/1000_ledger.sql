-- The ledger, in billed tokens. src/account/ledger/README.md explains the terms. No foreign key refers to users, because the ledger
-- stays when a user is erased.

-- The balance of a user: sums over the buckets, the overage and the end of the chain of entries. A low fillfactor leaves room
-- on the page for the next version of a row.
create table account (
  user_id uuid primary key,
  -- number and hash of the last entry
  seq bigint not null default 0,
  last_hash bytea not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
  -- sums of the buckets' remaining and held, for the audit and for balance_after
  posted bigint not null default 0 check (posted >= 0),
  held bigint not null default 0 check (held between 0 and posted),
  -- overage of the current period; a null cap turns it off
  overage bigint not null default 0 check (overage >= 0),
  overage_held bigint not null default 0 check (overage_held >= 0),
  overage_cap bigint check (overage_cap >= 0),
  -- the cap, or the overage that was used and held when a lower cap was set
  overage_limit bigint not null default 0,
  -- overage of the periods that have ended
  overage_closed bigint not null default 0 check (overage_closed >= 0),
  debt bigint not null default 0 check (debt >= 0),
  -- posted after the last grant, and the highest percentage of it that the user was alerted of
  granted bigint not null default 0,
  notified_percent integer not null default 0,
  trial_ends_at timestamptz(3),
  -- the first top-up or subscription; it ends the restrictions of a trial
  paid_since timestamptz(3),
  opened_at timestamptz(3) not null,
  -- counts grants, reinstatements and new or higher overage; a caller without tokens waits for the next
  refills bigint not null default 0,
  check (overage + overage_held <= overage_limit)
) with (fillfactor = 50);
create index account_by_trial_end on account (trial_ends_at) where paid_since is null;

-- The tokens of one grant.
create table bucket (
  user_id uuid not null references account,
  id uuid not null,
  source text not null check (source in ('subscription', 'top_up', 'bonus')),
  original bigint not null check (original > 0),
  remaining bigint not null,
  held bigint not null default 0,
  -- the sum of its reversals
  clawed_back bigint not null default 0,
  -- the part of clawed_back that calls still hold: unspent tokens are taken when the hold ends, spent ones become debt
  recalled bigint not null default 0,
  granted_at timestamptz(3) not null,
  expires_at timestamptz(3) not null check (expires_at > granted_at),
  note text,
  -- makes the grant idempotent
  grant_key text,
  closed_reason text check (closed_reason in ('spent', 'expired', 'clawed_back', 'closed')),
  -- tokens that adjustments took from it
  adjusted bigint not null default 0,
  -- an adjustment made it
  by_adjustment boolean not null default false,
  primary key (user_id, id),
  check (0 <= held and held <= remaining and remaining <= original),
  check (0 <= recalled and recalled <= held and recalled <= clawed_back and clawed_back <= original),
  check ((closed_reason is null) = (remaining > 0))
) with (fillfactor = 50);
create unique index bucket_by_grant_key on bucket (user_id, grant_key) where grant_key is not null;
create index bucket_open on bucket (user_id, granted_at, id) where closed_reason is null;
create index bucket_due on bucket (expires_at) where closed_reason is null;

-- Tokens that were taken back from a grant (positive) or returned to it (negative), once per key.
create table reversal (
  user_id uuid not null,
  key text not null,
  -- null: overage, which has no bucket
  bucket_id uuid,
  amount bigint not null,
  -- the part of amount that changed the debt at once
  debt bigint not null,
  reason text not null,
  created_at timestamptz(3) not null,
  primary key (user_id, key),
  foreign key (user_id, bucket_id) references bucket
);

-- An open hold. Its end deletes it; a settle copies its values to usage_event.
create table hold (
  user_id uuid not null,
  id uuid not null,
  api_key_id uuid,
  requested bigint not null check (requested >= 0),
  held bigint not null check (held between 0 and requested),
  -- held = sum of slice_tokens + overage; slice n pins slice_tokens[n] of the bucket slice_buckets[n]
  slice_buckets uuid[] not null,
  slice_tokens bigint[] not null,
  overage bigint not null check (overage >= 0),
  -- real time, so that a test clock cannot keep the hold of a dead caller
  expires_at timestamptz not null,
  request_id text not null,
  agent_id uuid,
  run_id uuid,
  -- the calculation of the amount (HoldEstimate), and the charge so far (Charge)
  estimate jsonb,
  progress jsonb,
  -- the end user of the call, whose budget counts the hold
  end_user text,
  primary key (user_id, id)
);
create index hold_by_expiry on hold (expires_at);
create index hold_by_end_user on hold (user_id, end_user) where end_user is not null;

-- The lines of the ledger. Each hash covers the entry before, so that changed rows are found.
create table entry (
  user_id uuid not null,
  seq bigint not null,
  type text not null
    check (type in ('grant', 'usage', 'expiry', 'refund', 'clawback', 'overage', 'absorbed', 'adjustment')),
  amount bigint not null check (amount <> 0),
  -- posted − debt after this entry; overage and absorbed entries leave it unchanged
  balance_after bigint not null,
  -- the bucket and its source
  bucket_id uuid,
  source text,
  hold_id uuid,
  model text,
  agent_id uuid,
  run_id uuid,
  request_id text,
  api_key_id uuid,
  description text not null,
  created_at timestamptz(3) not null,
  hash bytea not null,
  primary key (user_id, seq)
);
create index entry_by_run on entry (user_id, run_id, seq) where run_id is not null;
create index entry_by_agent on entry (user_id, agent_id, seq) where agent_id is not null;
create index entry_by_time on entry (user_id, created_at, seq);
create index entry_by_type on entry (user_id, type, seq) where type <> 'usage';
-- The operator's usage of all users reads a window of time. The table grows in the order of time, so that a BRIN index is
-- enough, and an insert hardly notices it.
create index entry_written on entry using brin (created_at) with (autosummarize = on);

-- One settled call: its usage, its rates, its hold and who paid.
create table usage_event (
  user_id uuid not null,
  hold_id uuid not null,
  request_id text not null,
  api_key_id uuid,
  agent_id uuid,
  run_id uuid,
  model text not null,
  input_tokens bigint not null check (input_tokens >= 0),
  cached_input_tokens bigint not null check (cached_input_tokens between 0 and input_tokens),
  output_tokens bigint not null check (output_tokens >= 0),
  -- millionths of a billed token per raw token; null: cached input costs the same as other input
  input_rate_micro bigint not null check (input_rate_micro >= 0),
  cached_input_rate_micro bigint check (cached_input_rate_micro >= 0),
  output_rate_micro bigint not null check (output_rate_micro >= 0),
  -- the hold; null if it had ended before the settle
  requested bigint,
  held bigint,
  slice_buckets uuid[],
  slice_tokens bigint[],
  -- cost, and who paid it: buckets, overage, the operator
  cost bigint not null check (cost >= 0),
  charged bigint not null check (charged >= 0),
  overage bigint not null check (overage >= 0),
  absorbed bigint not null check (absorbed >= 0),
  -- its entries have the numbers from entries_after + 1 to entries_to
  entries_after bigint not null,
  entries_to bigint not null,
  created_at timestamptz(3) not null,
  price_version text,
  -- copied from the hold
  estimate jsonb,
  -- the hold expired and its progress was charged; a later settle adds the rest
  from_progress boolean not null default false,
  -- the part of the input that the provider wrote to its cache; cached input is another part
  cache_write_tokens bigint not null default 0 check (cache_write_tokens >= 0),
  -- the part of cache_write_tokens that the cache keeps for an hour
  cache_write_1h_tokens bigint not null default 0,
  -- null: the input rate
  cache_write_rate_micro bigint check (cache_write_rate_micro >= 0),
  -- null: the rate of other cache writes
  cache_write_1h_rate_micro bigint check (cache_write_1h_rate_micro >= 0),
  -- by the provider's prices, before the margin; null: they are unknown
  upstream_cost_micro_usd bigint check (upstream_cost_micro_usd >= 0),
  -- for the usage of a reseller's own customers: {"user": …, "metadata.{name}": …}; null: none
  labels jsonb,
  -- the API that was called; null: a run called the model
  api text,
  -- from the call's beginning to its end; null: it is unknown, as that of a lost call
  duration_ms integer,
  -- until the answer's own text began; null: it was not streamed
  first_token_ms integer,
  primary key (user_id, hold_id),
  check (cost = charged + overage + absorbed),
  check (cache_write_1h_tokens between 0 and cache_write_tokens),
  constraint usage_event_input_parts_check check (cached_input_tokens + cache_write_tokens <= input_tokens)
);
-- user_id comes second: the planner must not choose this index when it looks up a charge by user and hold.
create index usage_event_by_request on usage_event (request_id, user_id);
-- A BRIN index is enough for a window of time: the table grows in the order of time.
create index usage_event_written on usage_event using brin (created_at) with (autosummarize = on);

-- Sums of usage_event by UTC day, written in the same transaction. The nil UUID means none.
create table usage_daily (
  user_id uuid not null,
  day date not null,
  model text not null,
  agent_id uuid not null,
  api_key_id uuid not null,
  requests bigint not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  cache_write_tokens bigint not null default 0,
  -- the sum of the known costs
  upstream_cost_micro_usd bigint not null default 0,
  primary key (user_id, day, model, agent_id, api_key_id)
) with (fillfactor = 50);
-- The budget of an interval is compared with the key's days.
create index usage_daily_by_key on usage_daily (user_id, api_key_id, day);
create index usage_daily_written on usage_daily using brin (day) with (autosummarize = on);

-- What each API key has spent and holds, for its budget.
create table key_spend (
  user_id uuid not null,
  api_key_id uuid not null,
  spent bigint not null default 0 check (spent >= 0),
  held bigint not null default 0 check (held >= 0),
  primary key (user_id, api_key_id)
) with (fillfactor = 50);

-- Thresholds that were crossed. A row is deleted when its notice is written.
create table crossing (
  user_id uuid not null,
  -- the entry that crossed it, or the last entry of that charge
  seq bigint not null,
  kind text not null check (kind in ('balance', 'overage', 'key_budget')),
  percent integer not null,
  -- the charge; null: an expiry or a claw-back reduced the balance
  hold_id uuid,
  detail jsonb not null,
  primary key (user_id, seq, kind, percent)
);

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

-- Labels of calls that cost nothing, on the user's last day with any. They have a limit per user and day.
create table free_label_day (
  user_id uuid primary key,
  day date not null,
  new_values bigint not null,
  bytes bigint not null
);

-- The operator's reason of an adjustment, or note of a grant. The entry has a fixed description, which its hash covers.
create table entry_reason (
  user_id uuid not null,
  seq bigint not null,
  reason text not null,
  primary key (user_id, seq)
);

-- Closed months of the ledger, moved to files (src/account/ledger/archive.service.ts). What the audit and the usage need of the moved
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
  -- charges from before this instant are final, because their month is about to be archived; null: no month was
  sealed_before timestamptz(3),
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
