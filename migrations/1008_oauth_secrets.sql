-- Secrets of type oauth: tokens of an MCP server that wants a sign-in.

alter table secret
  -- null: a value. Otherwise what its owner may see: server, grant, scope, status and the like. The sealed text counts.
  add column oauth jsonb,
  -- The node that asks for a token of this version holds a lease until then, so that only one asks.
  add column refreshing_version integer,
  add column refreshing_until timestamptz(3);

alter table secret_use drop constraint secret_use_outcome_check;
alter table secret_use add constraint secret_use_outcome_check
  check (outcome in ('opened', 'host_refused', 'reflected', 'unreadable', 'no_token'));
