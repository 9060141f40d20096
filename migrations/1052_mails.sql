-- Mails of sign-ups and password resets that the mail server has not taken yet. A node that dies loses none of them.
create table mail (
  id uuid primary key,
  -- Null: the address has no account yet.
  user_id uuid,
  -- In lower case, so that an erasure finds it.
  email text not null,
  -- Subject, text and link, sealed: the link sets a password.
  sealed bytea not null,
  attempts integer not null default 0,
  queued_at timestamptz(3) not null default clock_timestamp(),
  next_attempt_at timestamptz(3) not null default clock_timestamp(),
  -- The link is worthless from then on.
  give_up_at timestamptz(3) not null
);
create index mail_due on mail (next_attempt_at);
create index mail_by_email on mail (email);
