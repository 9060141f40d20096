-- The stored answers of a user whose requests cost nothing are counted when another one is stored.
create index concurrently if not exists idempotency_free on idempotency_key (user_id) where cost_nothing;
