-- Acts of operators, hash-chained and append-only: a trigger rejects updates and deletes (src/operator/sql).
create table operator_act (
  seq bigint primary key,
  id uuid not null unique,
  -- the operator key or the account; null: PURSER_ADMIN_KEY
  operator_id uuid,
  -- the key's name; of an account always the same words, because its address is shown from users
  operator_name text not null,
  what text not null,
  target_type text not null,
  target_id text,
  -- the user whom the act concerns
  user_id uuid,
  -- json keeps its text, which the hash covers. E-mail addresses are in operator_act_email.
  before json,
  after json,
  reason text,
  request_id text not null,
  created_at timestamptz(3) not null,
  hash bytea not null
);
create index operator_act_of_user on operator_act (user_id, seq) where user_id is not null;

-- The end of the chain of acts, so that the audit notices missing acts at the end. It has one row.
create table operator_act_chain (
  is_only boolean primary key default true check (is_only),
  seq bigint not null,
  last_hash bytea not null
);
insert into operator_act_chain (seq, last_hash) values (0, decode(repeat('00', 32), 'hex'));

-- E-mail addresses of acts. The chain covers only their salted hashes, so that erasing a user can delete the addresses.
create table operator_act_email (
  seq bigint primary key references operator_act (seq),
  user_id uuid not null,
  salt text not null,
  email_before text,
  email_after text,
  -- the operator's reason of an act about a user; operator_act.reason has its salted hash
  reason text
);
create index operator_act_email_of_user on operator_act_email (user_id);

-- Keys of operators, each with a name and a role.
create table operator_key (
  id uuid primary key,
  name text not null,
  role text not null check (role in ('read', 'support', 'admin')),
  key_hash bytea not null unique,
  previous_key_hash bytea unique,
  previous_valid_until timestamptz(3),
  last_four text not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  revoked_at timestamptz(3)
);

-- How the last audit of the ledger and the last backup ended, and when. One row for each.
create table upkeep (
  kind text primary key check (kind in ('audit', 'backup')),
  ended_at timestamptz(3) not null,
  -- null: none
  problem text,
  -- when one last ended without a problem; null: never
  succeeded_at timestamptz(3)
);
