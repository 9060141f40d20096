-- The vault: users' secrets, sealed; the keys they are sealed with, wrapped by the master keys; what was used when.

create table vault_key (
  -- the service's own key, which webhook endpoints and kept answers are sealed with, is under the nil id
  user_id uuid primary key,
  version integer not null,
  -- of the master key that wrapped it
  kek_id text not null,
  -- null: destroyed when the user was erased, and never made again
  wrapped bytea,
  -- HMAC over the user's secrets together: an old row put back does not fit it
  manifest bytea
);
create index vault_key_by_kek on vault_key (kek_id, user_id) where wrapped is not null;

create table secret (
  user_id uuid not null references vault_key (user_id),
  id uuid not null,
  name text not null,
  description text not null,
  masked_value text not null,
  -- null: wherever the user's tools bind it
  allowed_hosts text[],
  -- of the value: counts its changes
  version integer not null check (version > 0),
  -- salt, key commitment, tag, ciphertext: src/vault/seal.ts
  sealed bytea not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  last_used_at timestamptz(3),
  -- not null: a site sent it back, and it is not used until its value changes
  reflected_at timestamptz(3),
  primary key (user_id, id),
  unique (user_id, name)
);

-- Ciphertext does not compress, and of an uncompressed one the first bytes are read without the rest.
alter table secret alter column sealed set storage external;

-- Every use of a secret, refused ones too. These columns and no others: never a value, an address or a body.
create table secret_use (
  user_id uuid not null,
  secret_id uuid not null,
  id uuid not null,
  secret_version integer not null,
  agent_id uuid,
  run_id uuid,
  tool text not null,
  host text not null,
  outcome text not null check (outcome in ('opened', 'host_refused', 'reflected', 'unreadable')),
  used_at timestamptz(3) not null,
  primary key (user_id, secret_id, id)
);
create index secret_use_by_age on secret_use (used_at);
