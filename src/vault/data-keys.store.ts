import type { Db, Tx } from "../platform/db.ts";

/** A data key as it is stored. */
export interface WrappedKey {
  user_id: string;
  version: number;
  kek_id: string;
  wrapped: Uint8Array;
}

/** The table `vault_key`, as far as the keys themselves go. */
export function createDataKeysStore(db: Db) {
  return {
    /** `wrapped` null: it was destroyed. */
    async key(user_id: string): Promise<(Omit<WrappedKey, "wrapped"> & { wrapped: Uint8Array | null }) | undefined> {
      const rows = await db.query<WrappedKey>({
        text: "select user_id, version, kek_id, wrapped from vault_key where user_id = $1",
        values: [user_id],
      });
      return rows[0];
    },
    /** Keeps the first of two that are made at once. */
    async insert(key: WrappedKey, manifest: Uint8Array | null): Promise<void> {
      await db.query({
        text: `insert into vault_key (user_id, version, kek_id, wrapped, manifest) values ($1, $2, $3, $4, $5)
          on conflict (user_id) do nothing`,
        values: [key.user_id, key.version, key.kek_id, key.wrapped, manifest],
      });
    },
    /** Unless it was wrapped anew, or destroyed, meanwhile. */
    async rewrap(key: WrappedKey, by: { kek_id: string; wrapped: Uint8Array }): Promise<boolean> {
      const changed = await db.query({
        text: `update vault_key set kek_id = $3, wrapped = $4 where user_id = $1 and wrapped = $2 returning user_id`,
        values: [key.user_id, key.wrapped, by.kek_id, by.wrapped],
      });
      return changed.length > 0;
    },
    /** Leaves a row without a key, so that none is ever made again for the user. */
    async destroy(tx: Tx, user_id: string): Promise<void> {
      await tx.query({
        text: `insert into vault_key (user_id, version, kek_id, wrapped, manifest) values ($1, 1, '', null, null)
          on conflict (user_id) do update set kek_id = '', wrapped = null, manifest = null`,
        values: [user_id],
      });
    },

    /** One key of each master key in use. */
    samples: () =>
      // The recursion hops through the index from master key to master key, however many keys each has wrapped.
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
    /** Up to `limit` keys that another master key than `kek_id` wrapped, after the one of `after`. */
    wrappedByOthers: (kek_id: string, page: { after: string | null; limit: number }) =>
      db.query<WrappedKey>({
        text: `select user_id, version, kek_id, wrapped from vault_key
          where wrapped is not null and kek_id <> $1 and ($2::uuid is null or user_id > $2)
          order by user_id limit $3`,
        values: [kek_id, page.after, page.limit],
      }),
  };
}
