import type { Db, Sql, Tx } from "../platform/db.ts";

export interface BillingAccountRow {
  user_id: string;
  customer_provider: string | null;
  customer_reference: string | null;
  overage_enabled: boolean;
  overage_cap_tokens: number | null;
  overage_invoiced_cents: number;
}

interface Tables {
  billing_account: BillingAccountRow;
}

export function createBillingAccountsStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  return {
    /** Locks the user's billing row until the transaction ends. Creates the row if it is missing. */
    lock: (tx: Tx, user_id: string) =>
      tables(tx)
        .insertInto("billing_account")
        .values({ user_id } as BillingAccountRow)
        .onConflict((conflict) => conflict.column("user_id").doUpdateSet({ user_id }))
        .returningAll()
        .executeTakeFirstOrThrow(),
    find: (user_id: string) =>
      tables().selectFrom("billing_account").selectAll().where("user_id", "=", user_id).executeTakeFirst(),
    update: (tx: Tx, user_id: string, set: Partial<BillingAccountRow>) =>
      tables(tx).updateTable("billing_account").set(set).where("user_id", "=", user_id).execute(),
  };
}

export type BillingAccountsStore = ReturnType<typeof createBillingAccountsStore>;
