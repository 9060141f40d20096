import type { Db, Tx } from "../platform/db.ts";

interface BacklogRow {
  user_id: string;
  /** Null: erased since. */
  email: string | null;
}

export function createTrialsStore(db: Db) {
  return {
    /** Returns false when the hash exists. Waits for a transaction that inserts the same one. */
    async insert(tx: Tx, hash: Buffer): Promise<boolean> {
      const rows = await tx.query({
        text: "insert into trial_mailbox (hash) values ($1) on conflict do nothing returning hash",
        values: [hash],
      });
      return rows.length > 0;
    },
    async hasAny(tx: Tx, hashes: readonly Buffer[]): Promise<boolean> {
      const rows = await tx.query({
        text: "select from trial_mailbox where hash in (select decode(h, 'hex') from unnest($1::text[]) as h) limit 1",
        values: [hashes.map((hash) => hash.toString("hex"))],
      });
      return rows.length > 0;
    },
    /** Inserts the missing hashes. */
    insertAll: (tx: Tx, hashes: readonly Buffer[]) =>
      tx.query({
        text: `insert into trial_mailbox (hash)
          select distinct decode(hash, 'hex') from unnest($1::text[]) h (hash) on conflict do nothing`,
        values: [hashes.map((hash) => hash.toString("hex"))],
      }),
    hasBacklog: async () => (await db.query({ text: "select from trial_backlog limit 1" })).length > 0,
    /** Takes rows off the backlog. Concurrent nodes wait for one another. */
    async takeBacklog(tx: Tx, limit: number): Promise<BacklogRow[]> {
      await tx.query({ text: "lock table trial_backlog in exclusive mode" });
      return tx.query<BacklogRow>({
        text: `with taken as (
            delete from trial_backlog where user_id in (select user_id from trial_backlog limit $1) returning user_id)
          select user_id, email from taken join users on users.id = taken.user_id`,
        values: [limit],
      });
    },
  };
}
