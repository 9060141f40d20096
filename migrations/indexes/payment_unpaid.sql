-- A user's orders of the last day that nobody paid are counted when another is made.
create index concurrently if not exists payment_unpaid on payment (user_id, created_at) where status in ('pending', 'failed');
