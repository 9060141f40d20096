-- The address whose mailed link set the password. Notices are mailed only to an address that is proved in this way.
alter table password add column proven_email text;

-- When the notice was mailed. It outlives its endpoint, so that the limit of mails a day cannot be avoided.
alter table notice add column mailed_at timestamptz(3);
