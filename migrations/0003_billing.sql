-- Subscriptions. What a period grants is in the ledger, unique on (subscription, period start).

create table subscription (
  id uuid primary key,
  user_id uuid not null,
  plan_id text not null,
  status text not null check (status in ('active', 'ended')),
  -- periods are whole months from here, so that the 31st comes back after February
  anchor timestamptz(3) not null,
  periods integer not null check (periods >= 1),
  current_period_start timestamptz(3) not null,
  current_period_end timestamptz(3) not null,
  cancel_at_period_end boolean not null default false,
  pending_plan_id text,
  created_at timestamptz(3) not null,
  check (current_period_start < current_period_end)
);
create unique index subscription_active on subscription (user_id) where status = 'active';
create index subscription_due on subscription (current_period_end) where status = 'active';
