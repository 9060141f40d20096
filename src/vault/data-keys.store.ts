import type { Db, Tx } from "../platform/db/db.ts";

/** A stored data key. */
export interface WrappedKey {
  user_id: string;
  version: number;
  kek_id: string;
  wrapped: Uint8Array;
}

/** The keys in the table `vault_key`. */
export function createDataKeysStore(db: Db) {
  return {
    /** `wrapped` is null when the key was destroyed. */
    async key(user_id: string): Promise<(Omit<WrappedKey, "wrapped"> & { wrapped: Uint8Array | null }) | undefined> {
      const rows = await db.query<WrappedKey>({
        text: "select user_id, version, kek_id, wrapped from vault_key where user_id = $1",
        values: [user_id],
      });
      return rows[0];
    },
    /** If two are created at once, keeps the first. */
    async insert(key: WrappedKey, manifest: Uint8Array | null): Promise<void> {
      await db.query({
        text: `insert into vault_key (user_id, version, kek_id, wrapped, manifest) values ($1, $2, $3, $4, $5)
          on conflict (user_id) do nothing`,
        values: [key.user_id, key.version, key.kek_id, key.wrapped, manifest],
      });
    },
    /** Returns false when the key was wrapped again or destroyed meanwhile. */
    async rewrap(key: WrappedKey, by: { kek_id: string; wrapped: Uint8Array }): Promise<boolean> {
      const changed = await db.query({
        text: `update vault_key set kek_id = $3, wrapped = $4 where user_id = $1 and wrapped = $2 returning user_id`,
        values: [key.user_id, key.wrapped, by.kek_id, by.wrapped],
      });
      return changed.length > 0;
    },
    /** Leaves a row without a key, so that no new key can be created for the user. */
    async destroy(tx: Tx, user_id: string): Promise<void> {
      await tx.query({
        text: `insert into vault_key (user_id, version, kek_id, wrapped, manifest) values ($1, 1, '', null, null)
          on conflict (user_id) do update set kek_id = '', wrapped = null, manifest = null`,
        values: [user_id],
      });
    },

    /** Returns one key per master key in use. */
    samples: () =>
      // The recursion jumps from one master key to the next in the index, so its time does not depend on the number of
      // keys.
      db.query<WrappedKey>({
        text: `with recursive used as (
            (select kek_id from vault_key where wrapped is not null order by kek_id limit 1)
            union all
            select (select k.kek_id from vault_key k where k.wrapped is not null and k.kek_id > used.kek_id
              order by k.kek_id limit 1)
            from used where used.kek_id is not null
          )
          select one.* from used cross join lateral (
            select user_id, version, kek_id, wrapped from vault_key k
            where k.wrapped is not null and k.kek_id = used.kek_id order by user_id limit 1
          ) as one`,
      }),
    /** Up to `limit` keys after `after` that a master key other than `kek_id` wrapped. */
    wrappedByOthers: (kek_id: string, page: { after: string | null; limit: number }) =>
      db.query<WrappedKey>({
        text: `select user_id, version, kek_id, wrapped from vault_key
          where wrapped is not null and kek_id <> $1 and ($2::uuid is null or user_id > $2)
          order by user_id limit $3`,
        values: [kek_id, page.after, page.limit],
      }),
  };
}
