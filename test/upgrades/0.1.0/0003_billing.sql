-- What users subscribe to and allow. What a period grants is in the ledger, once for each (subscription, period start).

-- Whoever changes a user's billing locks this row first, so that changes of one user follow one another.
create table billing_account (
  user_id uuid primary key,
  -- the payment provider's customer
  customer_provider text,
  customer_reference text,
  overage_enabled boolean not null default false,
  -- null: the plan's included tokens
  overage_cap_tokens bigint check (overage_cap_tokens >= 0),
  -- of this period's overage, what has been invoiced before the period's end
  overage_invoiced_cents bigint not null default 0 check (overage_invoiced_cents >= 0),
  check ((customer_provider is null) = (customer_reference is null))
);

create table subscription (
  user_id uuid not null,
  id uuid not null,
  -- operator and sandbox run by the service's clock, as if paid; stripe runs its own periods
  provider text not null check (provider in ('operator', 'sandbox', 'stripe')),
  -- the provider's subscription and its checkout
  reference text,
  checkout_reference text,
  checkout_url text,
  -- on the real clock: until then a node is opening the checkout; null once it is open
  opening_until timestamptz,
  status text not null check (status in ('incomplete', 'active', 'past_due', 'ended')),
  -- the plans as they were when they were chosen: terms do not change under a subscriber
  plan jsonb not null,
  pending_plan jsonb,
  -- periods are whole months from here, so that the 31st comes back after February
  anchor timestamptz(3),
  periods integer not null default 0 check (periods >= 0),
  current_period_start timestamptz(3),
  current_period_end timestamptz(3),
  cancel_at_period_end boolean not null default false,
  -- over here, and the provider is still to be told
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
