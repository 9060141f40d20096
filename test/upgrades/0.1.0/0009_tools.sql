-- What tools need to keep.

-- The key that an agent's send_webhook signs with, sealed. Made when it is first needed.
create table agent_webhook_key (
  user_id uuid not null,
  agent_id uuid not null,
  sealed bytea not null,
  created_at timestamptz(3) not null,
  primary key (user_id, agent_id)
);
