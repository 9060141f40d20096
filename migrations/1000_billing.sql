-- Subscriptions and payments. The ledger has the tokens that they grant.

-- Billing settings of a user. Each transaction that changes a user's billing locks this row first.
create table billing_account (
  user_id uuid primary key,
  -- the user's id at the payment provider
  customer_provider text,
  customer_reference text,
  overage_enabled boolean not null default false,
  -- null: the plan's included tokens
  overage_cap_tokens bigint check (overage_cap_tokens >= 0),
  -- the part of this period's overage that was invoiced before the period's end
  overage_invoiced_cents bigint not null default 0 check (overage_invoiced_cents >= 0),
  check ((customer_provider is null) = (customer_reference is null))
);

-- Subscriptions of all times. A user has at most one that has not ended.
create table subscription (
  user_id uuid not null,
  id uuid not null,
  -- Purser's clock renews the periods of operator and sandbox; Stripe renews its own.
  provider text not null check (provider in ('operator', 'sandbox', 'stripe')),
  -- the provider's ids of the subscription and of its checkout
  reference text,
  checkout_reference text,
  checkout_url text,
  -- real time: a node is opening the checkout until then; null: it is open
  opening_until timestamptz,
  status text not null check (status in ('incomplete', 'active', 'past_due', 'ended')),
  -- copies of the plans as the user chose them, so that a change of the plans table does not change them
  plan jsonb not null,
  pending_plan jsonb,
  -- periods are counted in whole months from here, so that the 31st returns after February
  anchor timestamptz(3),
  periods integer not null default 0 check (periods >= 0),
  current_period_start timestamptz(3),
  current_period_end timestamptz(3),
  cancel_at_period_end boolean not null default false,
  -- ended in Purser; the provider does not know it yet
  end_at_provider boolean not null default false,
  created_at timestamptz(3) not null,
  primary key (user_id, id),
  check (current_period_start < current_period_end),
  check (status in ('incomplete', 'ended') or current_period_start is not null)
);
create unique index subscription_current on subscription (user_id) where status <> 'ended';
create unique index subscription_by_id on subscription (id);
create index subscription_due on subscription (current_period_end) where status = 'active';
create index subscription_to_end on subscription (id) where end_at_provider;

-- One amount of money and what it buys.
create table payment (
  user_id uuid not null,
  id uuid not null,
  purpose text not null check (purpose in ('top_up', 'period', 'upgrade', 'overage')),
  -- void: an invoice that is no longer owed; mismatch: another amount or currency was paid than ordered, and nothing was granted
  status text not null check (status in ('pending', 'succeeded', 'failed', 'void', 'mismatch')),
  -- operator: the operator collects the money outside Purser
  provider text not null check (provider in ('operator', 'sandbox', 'stripe')),
  -- the provider's id of the money; refunds and disputes name it
  reference text,
  amount_cents bigint not null check (amount_cents >= 0),
  currency text not null,
  -- the tokens that it grants; for overage, the tokens that it pays
  tokens bigint not null check (tokens >= 0),
  subscription_id uuid,
  period_start timestamptz(3),
  -- the new plan of an upgrade
  plan jsonb,
  checkout_url text,
  bucket_id uuid,
  -- Sums that only grow, so events in any order give the same result: paid, refunded, and refunds that failed.
  paid_cents bigint not null default 0 check (paid_cents >= 0),
  refunded_cents bigint not null default 0 check (refunded_cents >= 0),
  refund_failed_cents bigint not null default 0 check (refund_failed_cents >= 0),
  clawed_back_tokens bigint not null default 0 check (clawed_back_tokens between 0 and tokens),
  -- real time: the next try to send the order to the provider; null: the provider has accepted it
  send_at timestamptz,
  created_at timestamptz(3) not null,
  -- the bill that was paid instead of the order
  mismatch_cents bigint check (mismatch_cents >= 0),
  mismatch_currency text,
  -- ordered by an automatic top-up
  automatic boolean not null default false,
  -- An upgrade that was ordered after a cancellation undoes it once it is paid. A later cancellation sets this to false.
  undoes_cancellation boolean not null default false,
  primary key (user_id, id),
  check ((purpose = 'top_up') = (subscription_id is null)),
  check ((purpose = 'period') = (period_start is not null)),
  check ((purpose = 'upgrade') = (plan is not null)),
  check (status <> 'void' or purpose = 'overage'),
  constraint payment_mismatch_check check (
    (status = 'mismatch') = (mismatch_cents is not null) and (mismatch_cents is null) = (mismatch_currency is null)
      and (status <> 'mismatch' or (bucket_id is null and purpose <> 'overage'))
  ),
  constraint payment_automatic_check check (not automatic or purpose = 'top_up'),
  constraint payment_undoes_cancellation_check check (not undoes_cancellation or purpose = 'upgrade')
);
create unique index payment_by_id on payment (id);
create unique index payment_by_reference on payment (provider, reference) where reference is not null;
create unique index payment_of_period on payment (user_id, subscription_id, period_start) where purpose = 'period';
create index payment_of_user on payment (user_id, purpose, id);
create index payment_invoices on payment (id) where purpose = 'overage';
create index payment_mismatched on payment (id) where status = 'mismatch';
create index payment_to_send on payment (send_at) where send_at is not null;
-- at most one at a time
create unique index payment_automatic_pending on payment (user_id, provider) where automatic and status = 'pending';
create index payment_automatic on payment (user_id, created_at) where automatic;
-- The operator lists the purchases and invoices of a month.
create index payment_created on payment (created_at);
-- A user's unpaid orders of the last day are counted when another is made.
create index payment_unpaid on payment (user_id, created_at) where status in ('pending', 'failed');

-- Disputes of payments. The tokens of an open or lost one are taken back.
create table payment_dispute (
  provider text not null,
  reference text not null,
  user_id uuid not null,
  payment_id uuid not null,
  disputed_cents bigint not null check (disputed_cents >= 0),
  state text not null check (state in ('open', 'won', 'lost')),
  primary key (provider, reference)
);
create index payment_dispute_of_payment on payment_dispute (user_id, payment_id);

-- The inbox of provider events, each stored once. `waiting`: it arrived before its payment.
create table payment_event (
  provider text not null,
  event_id text not null,
  kind text not null,
  reference text,
  event jsonb not null,
  outcome text not null check (outcome in ('applied', 'waiting', 'ignored')),
  received_at timestamptz(3) not null,
  primary key (provider, event_id)
);
create index payment_event_waiting on payment_event (provider, reference) where outcome = 'waiting';

-- The settings of each user's automatic top-ups.
create table auto_topup (
  user_id uuid primary key,
  enabled boolean not null,
  threshold_tokens bigint not null check (threshold_tokens > 0),
  amount_cents bigint not null check (amount_cents > 0),
  monthly_cap_cents bigint not null check (monthly_cap_cents >= amount_cents),
  -- null: not paused
  paused_reason text check (paused_reason in ('payment_declined', 'payment_mismatch', 'payment_returned')),
  paused_at timestamptz(3),
  check ((paused_reason is null) = (paused_at is null))
);
create index auto_topup_at_work on auto_topup (user_id) where enabled and paused_reason is null;

-- How far a provider's list of events has been read, for events that its webhook did not deliver. All times are real time.
create table payment_event_reading (
  provider text primary key check (provider in ('operator', 'sandbox', 'stripe')),
  -- every event created before it was read
  read_from timestamptz(3) not null,
  -- the end of the window that is being read, newest event first; null: the next one has not begun
  read_to timestamptz(3),
  -- the event at which the reading of the window continues
  after_event text,
  -- the oldest event of the window that failed: the next window begins with it
  retry_from timestamptz(3),
  -- readings in a row that failed, for the backoff
  failures integer not null default 0,
  -- also the lease of the node that reads
  next_read_at timestamptz not null,
  check (read_to is not null or (after_event is null and retry_from is null))
);
