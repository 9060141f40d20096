import type { Db, Tx } from "../../platform/db/db.ts";
import { assignments, firstRow, oneRow } from "../../platform/db/statements.ts";

export interface BillingAccountRow {
  user_id: string;
  customer_provider: string | null;
  customer_reference: string | null;
  overage_enabled: boolean;
  overage_cap_tokens: number | null;
  overage_invoiced_cents: number;
}

/** Fields that are left out or undefined keep their values. */
export type BillingAccountChange = { [Field in keyof BillingAccountRow]?: BillingAccountRow[Field] | undefined };

const COLUMNS = `user_id, customer_provider, customer_reference, overage_enabled, overage_cap_tokens,
  overage_invoiced_cents`;

export function createBillingAccountsStore(db: Db) {
  return {
    /** Locks the user's billing row until the transaction ends. Creates the row if it is missing. */
    lock: (tx: Tx, user_id: string) =>
      oneRow<BillingAccountRow>(tx, {
        name: "billing_account_lock",
        text: `insert into billing_account (user_id) values ($1)
          on conflict (user_id) do update set user_id = excluded.user_id returning ${COLUMNS}`,
        values: [user_id],
      }),
    find: (user_id: string) =>
      firstRow<BillingAccountRow>(db, {
        name: "billing_account_find",
        text: `select ${COLUMNS} from billing_account where user_id = $1`,
        values: [user_id],
      }),
    async update(tx: Tx, user_id: string, set: BillingAccountChange): Promise<void> {
      const values: unknown[] = [user_id];
      const changes = assignments(values, set);
      if (changes === "") return;
      await tx.query({ text: `update billing_account set ${changes} where user_id = $1`, values });
    },
  };
}

export type BillingAccountsStore = ReturnType<typeof createBillingAccountsStore>;
