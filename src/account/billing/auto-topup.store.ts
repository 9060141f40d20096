import type { PauseReason } from "../../api/contract/payments.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { firstRow } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";

export interface AutoTopupRow {
  user_id: string;
  enabled: boolean;
  threshold_tokens: number;
  amount_cents: number;
  monthly_cap_cents: number;
  paused_reason: PauseReason | null;
  paused_at: Instant | null;
}

const COLUMNS = "user_id, enabled, threshold_tokens, amount_cents, monthly_cap_cents, paused_reason, paused_at";

export function createAutoTopupStore(db: Db) {
  return {
    find: (user_id: string, sql: Sql = db) =>
      firstRow<AutoTopupRow>(sql, { text: `select ${COLUMNS} from auto_topup where user_id = $1`, values: [user_id] }),
    upsert: (tx: Tx, row: AutoTopupRow) =>
      tx.query({
        text: `insert into auto_topup (${COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7)
          on conflict (user_id) do update set enabled = excluded.enabled, threshold_tokens = excluded.threshold_tokens,
            amount_cents = excluded.amount_cents, monthly_cap_cents = excluded.monthly_cap_cents,
            paused_reason = excluded.paused_reason, paused_at = excluded.paused_at`,
        values: [
          row.user_id,
          row.enabled,
          row.threshold_tokens,
          row.amount_cents,
          row.monthly_cap_cents,
          row.paused_reason,
          row.paused_at,
        ],
      }),
    /** Returns false when the settings are off or paused already. */
    async pause(tx: Tx, user_id: string, pause: { paused_reason: PauseReason; paused_at: Instant }): Promise<boolean> {
      const paused = await tx.query({
        text: `update auto_topup set paused_reason = $2, paused_at = $3
          where user_id = $1 and enabled and paused_reason is null returning user_id`,
        values: [user_id, pause.paused_reason, pause.paused_at],
      });
      return paused.length > 0;
    },
    /** Settings that are on and not paused, in the order of their users. */
    atWork: ({ after, limit }: { after: string | null; limit: number }) =>
      db.query<AutoTopupRow>({
        text: `select ${COLUMNS} from auto_topup
          where enabled and paused_reason is null and ($1::uuid is null or user_id > $1) order by user_id limit $2`,
        values: [after, limit],
      }),
    delete: (tx: Tx, user_id: string) =>
      tx.query({ text: "delete from auto_topup where user_id = $1", values: [user_id] }),
    /** What automatic top-ups ordered since `from`, declined ones left out, and whether one is open at `provider`. */
    async ordered(
      user_id: string,
      { from, provider }: { from: Instant; provider: string },
      sql: Sql = db,
    ): Promise<{ cents: number; is_open: boolean }> {
      const [found] = await sql.query<{ cents: number; is_open: boolean }>({
        text: `select coalesce(sum(amount_cents) filter (where created_at >= $2), 0)::bigint as cents,
            coalesce(bool_or(status = 'pending' and provider = $3), false) as is_open
          from payment where user_id = $1 and automatic and status <> 'failed'
            and (created_at >= $2 or status = 'pending')`,
        values: [user_id, from, provider],
      });
      return found ?? { cents: 0, is_open: false };
    },
  };
}
