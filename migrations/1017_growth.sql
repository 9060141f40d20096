-- Charges from before this instant are final, because their month is about to be planned for the archive. Null: no month was.
alter table archived_account add column sealed_before timestamptz(3);

-- The operator's usage of all users reads a window of days from these sums, which grow in the order of time.
create index usage_daily_written on usage_daily using brin (day) with (autosummarize = on);
