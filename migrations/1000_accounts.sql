-- Users and how they prove who they are. Tokens, keys and links are stored as SHA-256 only.

-- The ledger refers to users by id and has no foreign key to this table, so an erased user's ledger stays.
create table users (
  id uuid primary key,
  -- null: the user is erased
  email text unique,
  created_at timestamptz(3) not null,
  suspended_at timestamptz(3),
  erased_at timestamptz(3),
  -- {requests_per_minute, tokens_per_minute, concurrent_runs, allowed_models} that the operator has set; null: none
  limits jsonb,
  -- what the user may do as an operator in the console; null: no operator
  operator_role text check (operator_role in ('read', 'support', 'admin')),
  -- the first two characters of the user's API keys and sessions; null: the user has none yet
  routing_bucket text,
  check ((email is null) = (erased_at is not null))
);

-- A key stays in its row after it is revoked, because entries of the ledger refer to it.
create table api_key (
  id uuid primary key,
  user_id uuid not null references users (id),
  name text not null,
  key_hash bytea not null unique,
  -- The key before the last rotation stays valid for a time, so that clients can change to the new one.
  previous_key_hash bytea unique,
  previous_valid_until timestamptz(3),
  -- Both show a key to its owner, who cannot see its value again.
  prefix text not null,
  last_four text not null,
  scopes text[] not null,
  budget_tokens bigint check (budget_tokens >= 0),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  -- null: the budget is for the whole life of the key; otherwise it starts again with each interval (UTC, weeks from Monday)
  budget_interval text check (budget_interval in ('day', 'week', 'month')),
  -- ids of models; null: all
  allowed_models jsonb,
  -- {requests_per_minute, tokens_per_minute, concurrent_runs}, each null for none; null: no limits
  limits jsonb,
  check (budget_interval is null or budget_tokens is not null)
);
create index api_key_by_user on api_key (user_id, id);

-- Passwords of users who sign in to the console. Users with API keys only have no row.
create table password (
  user_id uuid primary key references users (id),
  -- scrypt$N$r$p$salt$hash
  hash text not null,
  changed_at timestamptz(3) not null,
  -- the address whose mailed link set the password; notices are mailed only to an address that is proved in this way
  proven_email text
);

-- Signed-in browsers.
create table session (
  token_hash bytea primary key,
  user_id uuid not null references users (id),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- when an operator last gave the password again; null: not in this session
  password_confirmed_at timestamptz(3)
);
create index session_by_user on session (user_id);
create index session_by_expiry on session (expires_at);

-- A mailed link that confirms an address. The user is created when the link is opened, so an unconfirmed address gets no tokens.
create table sign_up (
  token_hash bytea primary key,
  email text not null,
  expires_at timestamptz(3) not null
);
create index sign_up_by_email on sign_up (email);
create index sign_up_by_expiry on sign_up (expires_at);

-- A mailed link that sets a new password.
create table password_reset (
  token_hash bytea primary key,
  user_id uuid not null references users (id),
  expires_at timestamptz(3) not null
);
create index password_reset_by_user on password_reset (user_id);
create index password_reset_by_expiry on password_reset (expires_at);

-- Keyed hashes (HMAC) of the normalised addresses that had a trial. They stay when the user is erased, so that each mailbox
-- has one trial.
create table trial_mailbox (
  hash bytea primary key
);

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
