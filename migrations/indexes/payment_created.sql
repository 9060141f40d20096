-- The operator lists the purchases and invoices of a month.
create index concurrently if not exists payment_created on payment (created_at);
