-- Which API key a schedule counts against, and payments whose money is not what was ordered.

-- The key that enabled the schedule: its runs count against that key's budget and stop with it. Null: the console, or
-- a schedule that was enabled before keys were recorded.
alter table agent add column schedule_api_key_id uuid check (schedule_api_key_id is null or schedule_enabled);
create index agent_of_schedule_key on agent (schedule_api_key_id) where schedule_api_key_id is not null;

-- mismatch: another amount or currency was paid than ordered, and nothing was granted.
alter table payment
  drop constraint payment_status_check,
  add constraint payment_status_check check (status in ('pending', 'succeeded', 'failed', 'void', 'mismatch')),
  -- the bill that came instead
  add column mismatch_cents bigint check (mismatch_cents >= 0),
  add column mismatch_currency text,
  add constraint payment_mismatch_check check (
    (status = 'mismatch') = (mismatch_cents is not null) and (mismatch_cents is null) = (mismatch_currency is null)
      and (status <> 'mismatch' or (bucket_id is null and purpose <> 'overage'))
  );
create index payment_mismatched on payment (id) where status = 'mismatch';
