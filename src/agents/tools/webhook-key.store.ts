import type { Db, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";

export interface WebhookKeyRow {
  user_id: string;
  agent_id: string;
  sealed: Buffer;
  created_at: Instant;
}

export function createWebhookKeyStore(db: Db) {
  return {
    /** Inserts the row, unless the agent already has one. A deletion of the agent deletes it, or comes first: then no row. */
    async insertOnce({ user_id, agent_id, sealed, created_at }: WebhookKeyRow): Promise<void> {
      await db.query({
        text: `insert into agent_webhook_key (user_id, agent_id, sealed, created_at)
          select user_id, id, $3, $4 from agent where user_id = $1 and id = $2 and deleted_at is null for key share
          on conflict do nothing`,
        values: [user_id, agent_id, sealed, created_at],
      });
    },
    async find(user_id: string, agent_id: string): Promise<WebhookKeyRow | undefined> {
      const [row] = await db.query<WebhookKeyRow>({
        name: "webhook_key",
        text: "select user_id, agent_id, sealed, created_at from agent_webhook_key where user_id = $1 and agent_id = $2",
        values: [user_id, agent_id],
      });
      return row;
    },
    async deleteAgents(tx: Tx, agents: readonly Pick<WebhookKeyRow, "user_id" | "agent_id">[]): Promise<void> {
      await tx.query({
        text: `delete from agent_webhook_key as key using jsonb_to_recordset($1::jsonb) as gone(user_id uuid, agent_id uuid)
          where key.user_id = gone.user_id and key.agent_id = gone.agent_id`,
        values: [JSON.stringify(agents)],
      });
    },
    async deleteUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from agent_webhook_key where user_id = $1", values: [user_id] });
    },
  };
}
