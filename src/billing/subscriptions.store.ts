import type { Db, Instant, Sql, Tx } from "../platform/db.ts";

export interface SubscriptionRow {
  id: string;
  user_id: string;
  plan_id: string;
  status: "active" | "ended";
  anchor: Instant;
  periods: number;
  current_period_start: Instant;
  current_period_end: Instant;
  cancel_at_period_end: boolean;
  pending_plan_id: string | null;
  created_at: Instant;
}

interface Tables {
  subscription: SubscriptionRow;
}

export function createSubscriptionsStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  return {
    insert: (tx: Tx, row: SubscriptionRow) => tables(tx).insertInto("subscription").values(row).execute(),
    active: (user_id: string, sql: Sql = db) =>
      tables(sql)
        .selectFrom("subscription")
        .selectAll()
        .where("user_id", "=", user_id)
        .where("status", "=", "active")
        .executeTakeFirst(),
    /** The subscription whose period ended first, up to `now`, locked; another node's is skipped. */
    due: (tx: Tx, now: Instant) =>
      tables(tx)
        .selectFrom("subscription")
        .selectAll()
        .where("status", "=", "active")
        .where("current_period_end", "<=", now)
        .orderBy("current_period_end")
        .limit(1)
        .forUpdate()
        .skipLocked()
        .executeTakeFirst(),
    update: (tx: Tx, id: string, set: Partial<SubscriptionRow>) =>
      tables(tx).updateTable("subscription").set(set).where("id", "=", id).execute(),
    nextEnd: async (until: Instant): Promise<Instant | null> => {
      const row = await tables()
        .selectFrom("subscription")
        .select("current_period_end")
        .where("status", "=", "active")
        .where("current_period_end", "<=", until)
        .orderBy("current_period_end")
        .limit(1)
        .executeTakeFirst();
      return row?.current_period_end ?? null;
    },
    endOf: (tx: Tx, user_id: string) =>
      tables(tx)
        .updateTable("subscription")
        .set({ status: "ended" })
        .where("user_id", "=", user_id)
        .where("status", "=", "active")
        .execute(),
  };
}
