import type { Tx } from "../../platform/db/db.ts";

/** Returns false when the hash exists. Waits for a transaction that inserts the same one. */
export async function insertMailbox(tx: Tx, hash: Buffer): Promise<boolean> {
  const rows = await tx.query({
    text: "insert into trial_mailbox (hash) values ($1) on conflict do nothing returning hash",
    values: [hash],
  });
  return rows.length > 0;
}
