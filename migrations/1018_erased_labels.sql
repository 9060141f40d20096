-- The sweep of labels reads from `users` who is erased, so that it also finds users whom an earlier version erased.
-- contract: no release wrote or read this table.
drop table erased_account;
