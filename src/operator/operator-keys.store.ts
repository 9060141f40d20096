import type { OperatorRole } from "../contract/caller.ts";
import type { Db, Instant, Tx } from "../platform/db.ts";
import { GIVEN_HASHES, selectByHash } from "../platform/statements.ts";

export interface OperatorKeyRow {
  id: string;
  name: string;
  role: OperatorRole;
  key_hash: Buffer;
  previous_key_hash: Buffer | null;
  previous_valid_until: Instant | null;
  last_four: string;
  created_at: Instant;
  expires_at: Instant | null;
  last_used_at: Instant | null;
  revoked_at: Instant | null;
}

interface Tables {
  operator_key: OperatorKeyRow;
}

/** The new secret of a rotated key. */
type Rotation = Pick<OperatorKeyRow, "id" | "key_hash" | "last_four" | "previous_key_hash" | "previous_valid_until">;

export function createOperatorKeysStore(db: Db) {
  return {
    insert: (tx: Tx, key: OperatorKeyRow) => tx.tables<Tables>().insertInto("operator_key").values(key).execute(),
    list: ({ limit, before_id }: { limit: number; before_id: string | null }) => {
      const query = db.tables<Tables>().selectFrom("operator_key").selectAll().orderBy("id", "desc").limit(limit);
      return (before_id === null ? query : query.where("id", "<", before_id)).execute();
    },
    /** Returns the key and locks it until the transaction ends. */
    lock: (tx: Tx, id: string) =>
      tx.tables<Tables>().selectFrom("operator_key").selectAll().where("id", "=", id).forUpdate().executeTakeFirst(),
    revoke: (tx: Tx, id: string, revoked_at: Instant) =>
      tx.tables<Tables>().updateTable("operator_key").set({ revoked_at }).where("id", "=", id).execute(),
    rotate: (tx: Tx, { id, ...set }: Rotation) =>
      tx
        .tables<Tables>()
        .updateTable("operator_key")
        .set(set)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirstOrThrow(),
    touch: (id: string, last_used_at: Instant) =>
      db.query({
        text: "update operator_key set last_used_at = greatest(last_used_at, $2) where id = $1",
        values: [id, last_used_at],
      }),
    /** Returns the keys with these current or previous hashes, in the order of the hashes. */
    byHash(hashes: readonly Buffer[]): Promise<(OperatorKeyRow | undefined)[]> {
      const text = `select k.*, given.nth::integer as nth
        from ${GIVEN_HASHES}
        join operator_key k on k.key_hash = decode(given.hash, 'hex') or k.previous_key_hash = decode(given.hash, 'hex')`;
      return selectByHash(db, { text }, hashes);
    },
  };
}
