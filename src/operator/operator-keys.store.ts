import type { OperatorRole } from "../api/contract/caller.ts";
import type { Db, Tx } from "../platform/db/db.ts";
import { firstRow, GIVEN_HASHES, insertInto, oneRow, selectByHash } from "../platform/db/statements.ts";
import type { Instant } from "../platform/lib/instant.ts";

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

const COLUMNS = `id, name, role, key_hash, previous_key_hash, previous_valid_until, last_four, created_at, expires_at,
  last_used_at, revoked_at`;

/** The new secret of a rotated key. */
type Rotation = Pick<OperatorKeyRow, "id" | "key_hash" | "last_four" | "previous_key_hash" | "previous_valid_until">;

export function createOperatorKeysStore(db: Db) {
  return {
    insert: (tx: Tx, key: OperatorKeyRow) => tx.query(insertInto("operator_key", key)),
    list: ({ limit, before_id }: { limit: number; before_id: string | null }) =>
      db.query<OperatorKeyRow>({
        text: `select ${COLUMNS} from operator_key where $1::uuid is null or id < $1 order by id desc limit $2`,
        values: [before_id, limit],
      }),
    /** Returns the key and locks it until the transaction ends. */
    lock: (tx: Tx, id: string) =>
      firstRow<OperatorKeyRow>(tx, {
        text: `select ${COLUMNS} from operator_key where id = $1 for update`,
        values: [id],
      }),
    revoke: (tx: Tx, id: string, revoked_at: Instant) =>
      tx.query({ text: "update operator_key set revoked_at = $2 where id = $1", values: [id, revoked_at] }),
    rotate: (tx: Tx, { id, key_hash, last_four, previous_key_hash, previous_valid_until }: Rotation) =>
      oneRow<OperatorKeyRow>(tx, {
        text: `update operator_key set key_hash = $2, last_four = $3, previous_key_hash = $4, previous_valid_until = $5
          where id = $1 returning ${COLUMNS}`,
        values: [id, key_hash, last_four, previous_key_hash, previous_valid_until],
      }),
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
