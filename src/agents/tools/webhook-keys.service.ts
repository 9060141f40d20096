import type { Db, Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { newWebhookSecret } from "../../platform/net/standard-webhooks.ts";
import { createWebhookKeyStore } from "./webhook-key.store.ts";

/** The agent whose webhooks a key signs. */
export interface AgentRef {
  readonly user_id: string;
  readonly agent_id: string;
}

export interface WebhookKey {
  /** `whsec_…`, the format that every Standard Webhooks library accepts. */
  key: string;
  created_at: Instant;
}

/** The signing keys of agents' webhooks: one for each agent, created when it is first needed. */
export interface WebhookKeys {
  /** null: the key was sealed under a master key that is no longer available, or the agent was deleted. */
  keyOf(agent: AgentRef): Promise<WebhookKey | null>;
  /** Deletes the keys of deleted agents. */
  forgetAgents(tx: Tx, agents: readonly AgentRef[]): Promise<void>;
  /** Deletes the keys of a user who is being erased. */
  forgetUser(tx: Tx, user_id: string): Promise<void>;
}

/** Owns `agent_webhook_key`. `cipher` seals the keys. */
export function createWebhookKeys({ db, clock, cipher }: { db: Db; clock: Clock; cipher: Cipher }): WebhookKeys {
  const store = createWebhookKeyStore(db);
  return {
    async keyOf({ user_id, agent_id }) {
      const context = `${user_id} ${agent_id}`;
      let row = await store.find(user_id, agent_id);
      if (row === undefined) {
        const sealed = cipher.seal(Buffer.from(newWebhookSecret()), context);
        await store.insertOnce({ user_id, agent_id, sealed, created_at: clock.now() });
        row = await store.find(user_id, agent_id);
      }
      if (row === undefined) return null;
      const key = cipher.open(row.sealed, context)?.toString();
      return key === undefined ? null : { key, created_at: row.created_at };
    },
    forgetAgents: store.deleteAgents,
    forgetUser: store.deleteUser,
  };
}
