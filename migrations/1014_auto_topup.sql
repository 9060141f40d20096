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

alter table payment add column automatic boolean not null default false,
  add constraint payment_automatic_check check (not automatic or purpose = 'top_up') not valid;
-- at most one at a time
create unique index payment_automatic_pending on payment (user_id, provider) where automatic and status = 'pending';
create index payment_automatic on payment (user_id, created_at) where automatic;
