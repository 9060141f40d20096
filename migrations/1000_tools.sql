-- The key that signs an agent's webhooks (send_webhook, results of runs), sealed. It is created at its first use.
create table agent_webhook_key (
  user_id uuid not null,
  agent_id uuid not null,
  sealed bytea not null,
  created_at timestamptz(3) not null,
  primary key (user_id, agent_id)
);
