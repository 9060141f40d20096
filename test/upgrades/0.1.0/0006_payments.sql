-- Money: what was ordered, what providers told of it, and what became of it.

create table payment (
  user_id uuid not null,
  id uuid not null,
  purpose text not null check (purpose in ('top_up', 'period', 'upgrade', 'overage')),
  -- void: an invoice that is not asked for any more
  status text not null check (status in ('pending', 'succeeded', 'failed', 'void')),
  -- who moves the money; operator: whoever runs the service, by their own means
  provider text not null check (provider in ('operator', 'sandbox', 'stripe')),
  -- the provider's id of the money: refunds and disputes name it
  reference text,
  amount_cents bigint not null check (amount_cents >= 0),
  currency text not null,
  -- what it grants; of overage, what it pays for
  tokens bigint not null check (tokens >= 0),
  subscription_id uuid,
  period_start timestamptz(3),
  -- an upgrade's new plan
  plan jsonb,
  checkout_url text,
  bucket_id uuid,
  -- what was paid in fact; all refunds ever made of it, and those of them that failed. Each only grows.
  paid_cents bigint not null default 0 check (paid_cents >= 0),
  refunded_cents bigint not null default 0 check (refunded_cents >= 0),
  refund_failed_cents bigint not null default 0 check (refund_failed_cents >= 0),
  clawed_back_tokens bigint not null default 0 check (clawed_back_tokens between 0 and tokens),
  -- on the real clock: when the order is (again) sent to the provider; null once the provider has taken it
  send_at timestamptz,
  created_at timestamptz(3) not null,
  primary key (user_id, id),
  check ((purpose = 'top_up') = (subscription_id is null)),
  check ((purpose = 'period') = (period_start is not null)),
  check ((purpose = 'upgrade') = (plan is not null)),
  check (status <> 'void' or purpose = 'overage')
);
create unique index payment_by_id on payment (id);
create unique index payment_by_reference on payment (provider, reference) where reference is not null;
create unique index payment_of_period on payment (user_id, subscription_id, period_start) where purpose = 'period';
create index payment_of_user on payment (user_id, purpose, id);
create index payment_invoices on payment (id) where purpose = 'overage';
create index payment_to_send on payment (send_at) where send_at is not null;

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

-- The inbox: each event of a provider once. `waiting` ones came before the payment that they are about.
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
