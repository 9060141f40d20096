import type { Db, Instant, Sql, Tx } from "../platform/db.ts";

/** Why automatic top-ups stopped until the user resumes them. */
export type PauseReason = "payment_declined" | "payment_mismatch" | "payment_returned";

export interface AutoTopupRow {
  user_id: string;
  enabled: boolean;
  threshold_tokens: number;
  amount_cents: number;
  monthly_cap_cents: number;
  paused_reason: PauseReason | null;
  paused_at: Instant | null;
}

interface Tables {
  auto_topup: AutoTopupRow;
}

export function createAutoTopupStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  return {
    find: (user_id: string, sql?: Sql) =>
      tables(sql).selectFrom("auto_topup").selectAll().where("user_id", "=", user_id).executeTakeFirst(),
    upsert: (tx: Tx, { user_id, ...set }: AutoTopupRow) =>
      tables(tx)
        .insertInto("auto_topup")
        .values({ user_id, ...set })
        .onConflict((conflict) => conflict.column("user_id").doUpdateSet(set))
        .execute(),
    /** Returns false when the settings are off or paused already. */
    pause: async (tx: Tx, user_id: string, pause: { paused_reason: PauseReason; paused_at: Instant }) =>
      (await tables(tx)
        .updateTable("auto_topup")
        .set(pause)
        .where("user_id", "=", user_id)
        .where("enabled", "=", true)
        .where("paused_reason", "is", null)
        .returning("user_id")
        .executeTakeFirst()) !== undefined,
    /** Settings that are on and not paused, in the order of their users. */
    atWork: (page: { after: string | null; limit: number }) => {
      const query = tables().selectFrom("auto_topup").selectAll().where("enabled", "=", true);
      const from = page.after === null ? query : query.where("user_id", ">", page.after);
      return from.where("paused_reason", "is", null).orderBy("user_id").limit(page.limit).execute();
    },
    delete: (tx: Tx, user_id: string) => tables(tx).deleteFrom("auto_topup").where("user_id", "=", user_id).execute(),
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
