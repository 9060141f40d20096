-- A user's unpaid orders of the last day are counted when another is made.
create index concurrently if not exists payment_unpaid on payment (user_id, created_at) where status in ('pending', 'failed');
