-- Trials are granted once per normalised address, and passwords are set on the page that the mailed link opens.

-- Keyed hashes (HMAC under a key of the service) of addresses that had a trial. They stay when the account is erased.
create table trial_mailbox (
  hash bytea primary key
);

-- Users who had a trial before the table above existed. SQL has no key: the first start hashes their addresses and
-- empties this table before it answers any request.
create table trial_backlog (
  user_id uuid primary key references users (id)
);
insert into trial_backlog (user_id)
  select u.id from users u join account a on a.user_id = u.id where a.trial_ends_at is not null and u.email is not null;

-- A password given with a sign-up was chosen before the address was proved.
alter table sign_up drop column password_hash;
