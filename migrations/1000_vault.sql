-- Users' secrets, sealed. src/vault/README.md explains the terms.

-- The data key of each user, wrapped by a master key. The nil UUID has the service's own data key.
create table vault_key (
  user_id uuid primary key,
  version integer not null,
  -- the master key that wrapped it
  kek_id text not null,
  -- null: the user is erased. The row stays, so that no request creates a new key.
  wrapped bytea,
  -- MAC over all of the user's secrets; it detects a row that was replaced by an older one
  manifest bytea
);
create index vault_key_by_kek on vault_key (kek_id, user_id) where wrapped is not null;

-- A credential. The row has what its owner may see; only the data key opens the value.
create table secret (
  user_id uuid not null references vault_key (user_id),
  id uuid not null,
  name text not null,
  description text not null,
  masked_value text not null,
  -- null: every host to which the user's tools bind it
  allowed_hosts text[],
  -- counts the changes of the value
  version integer not null check (version > 0),
  -- salt, key commitment, tag, ciphertext: src/vault/seal.ts
  sealed bytea not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  last_used_at timestamptz(3),
  -- not null: a site returned the value, and the secret is disabled until its value changes
  reflected_at timestamptz(3),
  -- null: a value. Otherwise it is of type oauth, the tokens of an MCP server that wants a sign-in: what its owner may see
  -- (server, grant, scope, status and the like). The sealed text counts.
  oauth jsonb,
  -- The node that asks for a token of this version holds a lease until then, so that only one asks.
  refreshing_version integer,
  refreshing_until timestamptz(3),
  primary key (user_id, id),
  unique (user_id, name)
);
-- Ciphertext does not compress. Stored uncompressed, its beginning is read without the rest.
alter table secret alter column sealed set storage external;

-- The log of uses, denied ones included. It never has a value, an address or a body.
create table secret_use (
  user_id uuid not null,
  secret_id uuid not null,
  id uuid not null,
  secret_version integer not null,
  agent_id uuid,
  run_id uuid,
  tool text not null,
  host text not null,
  outcome text not null check (outcome in ('opened', 'host_refused', 'reflected', 'unreadable', 'no_token')),
  used_at timestamptz(3) not null,
  primary key (user_id, secret_id, id)
);
create index secret_use_by_age on secret_use (used_at);
