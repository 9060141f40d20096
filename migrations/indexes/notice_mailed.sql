-- A user's mails of a day are counted before another is sent.
create index concurrently if not exists notice_mailed on notice (user_id, mailed_at) where mailed_at is not null;
