-- The month before this instant is about to be planned for the archive: settles of its lost calls come too late. Null: none was.
alter table archived_account add column sealed_before timestamptz(3);

-- Accounts of erased users. A sweep removes the labels of their calls: they name the customers of a reseller.
create table erased_account (
  user_id uuid primary key
);

-- The operator's usage of all users reads a window of days from these sums, which grow in the order of time.
create index usage_daily_written on usage_daily using brin (day) with (autosummarize = on);
