import type { Secret, SecretUse } from "../api/contract/secrets.ts";
import type { Db, Sql, Tx } from "../platform/db/db.ts";
import type { Instant } from "../platform/lib/instant.ts";
import { jsonbText } from "../platform/lib/json.ts";
import { SEALING_ID_BYTES } from "./seal.ts";

/** A secret as listed. */
export type SecretRow = Omit<Secret, "type"> & { user_id: string };
export type SealedRow = SecretRow & { sealed: Uint8Array };

/** A user's stored key, its integrity MAC and the entries that the MAC covers. */
export interface HeldKey {
  version: number;
  kek_id: string;
  wrapped: Uint8Array | null;
  manifest: Uint8Array | null;
  entries: string[];
}

interface Page {
  limit: number;
  before_id: string | null;
}

const COLUMNS = `s.user_id, s.id, s.name, s.description, s.masked_value, s.allowed_hosts, s.version, s.created_at,
  s.updated_at, s.last_used_at, s.reflected_at, s.oauth`;
/** See `computeIntegrityMac`. */
const ENTRIES = `array(select concat_ws(' ', id, version, encode(substring(sealed from 1 for ${SEALING_ID_BYTES}), 'hex'),
  reflected_at is not null) from secret where user_id = $1 order by id)`;

/** Secrets and their uses. data-keys.store.ts stores the keys. */
export function createVaultStore(db: Db) {
  return {
    secrets: (user_id: string, page: Page) =>
      db.query<SecretRow>({
        text: `select ${COLUMNS} from secret s where user_id = $1 and ($2::uuid is null or id < $2)
          order by id desc limit $3`,
        values: [user_id, page.before_id, page.limit],
      }),
    async secret(user_id: string, id: string): Promise<SecretRow | undefined> {
      const rows = await db.query<SecretRow>({
        text: `select ${COLUMNS} from secret s where user_id = $1 and id = $2`,
        values: [user_id, id],
      });
      return rows[0];
    },
    names: (user_id: string, sql: Sql = db) =>
      sql.query<{ name: string; is_oauth: boolean; allowed_hosts: string[] | null }>({
        text: "select name, oauth is not null as is_oauth, allowed_hosts, allowed_hosts from secret where user_id = $1 order by name",
        values: [user_id],
      }),
    /** Reads the secret and the user's key in one snapshot. Otherwise a concurrent change would look like tampering. */
    async toOpen(user_id: string, name: string): Promise<{ secret: SealedRow; held: HeldKey } | undefined> {
      const [row] = await db.query<SealedRow & { key_version: number; kek_id: string } & Omit<HeldKey, "version">>({
        name: "secret_to_open",
        text: `select ${COLUMNS}, s.sealed, k.version as key_version, k.kek_id, k.wrapped, k.manifest, ${ENTRIES} as entries
          from secret s join vault_key k on k.user_id = s.user_id where s.user_id = $1 and s.name = $2`,
        values: [user_id, name],
      });
      if (row === undefined) return undefined;
      const { key_version, kek_id, wrapped, manifest, entries, ...secret } = row;
      return { secret, held: { version: key_version, kek_id, wrapped, manifest, entries } };
    },

    /**
     * Takes the lease for asking for a token in place of this version's. False: another request holds it, or the
     * version was replaced. It ends with the version, or after `lease_seconds`.
     */
    async claimRefresh({ user_id, id, version }: SecretRow, lease_seconds: number): Promise<boolean> {
      const claimed = await db.query({
        text: `update secret set refreshing_version = version,
            refreshing_until = clock_timestamp() + make_interval(secs => $4)
          where user_id = $1 and id = $2 and version = $3
            and (refreshing_version is distinct from version or refreshing_until < clock_timestamp()) returning id`,
        values: [user_id, id, version, lease_seconds],
      });
      return claimed.length > 0;
    },
    async releaseRefresh({ user_id, id, version }: SecretRow): Promise<void> {
      await db.query({
        text: `update secret set refreshing_version = null where user_id = $1 and id = $2 and refreshing_version = $3`,
        values: [user_id, id, version],
      });
    },

    /** Locks the user's key until the end of `tx`, so that changes to their secrets run one after the other. */
    async lock(tx: Tx, user_id: string): Promise<HeldKey | undefined> {
      const [key] = await tx.query<Omit<HeldKey, "entries">>({
        text: "select version, kek_id, wrapped, manifest from vault_key where user_id = $1 for update",
        values: [user_id],
      });
      // A separate statement, because a statement that waited for the lock does not see the rows written meanwhile.
      return key === undefined ? undefined : { ...key, entries: await toEntries(tx, user_id) };
    },
    entries: toEntries,
    async setIntegrityMac(tx: Tx, user_id: string, manifest: Uint8Array): Promise<void> {
      await tx.query({ text: "update vault_key set manifest = $2 where user_id = $1", values: [user_id, manifest] });
    },
    async sealed(tx: Tx, user_id: string, id: string): Promise<SealedRow | undefined> {
      const rows = await tx.query<SealedRow>({
        text: `select ${COLUMNS}, s.sealed from secret s where user_id = $1 and id = $2`,
        values: [user_id, id],
      });
      return rows[0];
    },
    async insert(tx: Tx, row: SealedRow): Promise<void> {
      await tx.query({
        text: `insert into secret (user_id, id, name, description, masked_value, allowed_hosts, version, sealed, created_at,
            updated_at, oauth)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
        values: [
          row.user_id,
          row.id,
          row.name,
          row.description,
          row.masked_value,
          row.allowed_hosts,
          row.version,
          row.sealed,
          row.created_at,
          row.updated_at,
          row.oauth === null ? null : jsonbText(row.oauth),
        ],
      });
    },
    async update(tx: Tx, row: SealedRow): Promise<void> {
      await tx.query({
        text: `update secret set description = $3, masked_value = $4, allowed_hosts = $5, version = $6, sealed = $7,
            updated_at = $8, reflected_at = $9, oauth = $10 where user_id = $1 and id = $2`,
        values: [
          row.user_id,
          row.id,
          row.description,
          row.masked_value,
          row.allowed_hosts,
          row.version,
          row.sealed,
          row.updated_at,
          row.reflected_at,
          row.oauth === null ? null : jsonbText(row.oauth),
        ],
      });
    },
    async remove(tx: Tx, user_id: string, id: string): Promise<boolean> {
      const removed = await tx.query({
        text: "delete from secret where user_id = $1 and id = $2 returning id",
        values: [user_id, id],
      });
      return removed.length > 0;
    },
    async removeAll(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from secret where user_id = $1", values: [user_id] });
      await tx.query({ text: "delete from secret_use where user_id = $1", values: [user_id] });
    },

    /**
     * Records a use, and the time of use of an opened secret. Returns false and writes nothing when the secret is gone
     * or was changed after opening. Erasing the user waits for this statement, so no row stays behind.
     */
    async recordUse(
      use: SecretUse & { user_id: string; secret_id: string; allowed_hosts: string[] | null },
    ): Promise<boolean> {
      const recorded = await db.query({
        name: "secret_use",
        text: `with held as (
            update secret set last_used_at = case $9 when 'opened' then greatest(last_used_at, $10) else last_used_at end
            where user_id = $1 and id = $2 and ($9 <> 'opened'
              or (version = $4 and reflected_at is null and allowed_hosts is not distinct from $11::text[]))
            returning id
          )
          insert into secret_use (user_id, secret_id, id, secret_version, agent_id, run_id, tool, host, outcome, used_at)
          select $1, held.id, $3, $4, $5, $6, $7, $8, $9, $10 from held returning id`,
        values: [
          use.user_id,
          use.secret_id,
          use.id,
          use.secret_version,
          use.agent_id,
          use.run_id,
          use.tool,
          use.host,
          use.outcome,
          use.used_at,
          use.allowed_hosts,
        ],
      });
      return recorded.length > 0;
    },
    uses: (user_id: string, secret_id: string, page: Page) =>
      db.query<SecretUse>({
        text: `select id, secret_version, agent_id, run_id, tool, host, outcome, used_at from secret_use
          where user_id = $1 and secret_id = $2 and ($3::uuid is null or id < $3) order by id desc limit $4`,
        values: [user_id, secret_id, page.before_id, page.limit],
      }),
    async deleteUsesBefore(instant: Instant): Promise<void> {
      await db.query({ text: "delete from secret_use where used_at < $1", values: [instant] });
    },
  };
}

export type VaultStore = ReturnType<typeof createVaultStore>;

async function toEntries(sql: Sql, user_id: string): Promise<string[]> {
  const [row] = await sql.query<{ entries: string[] }>({ text: `select ${ENTRIES} as entries`, values: [user_id] });
  return row?.entries ?? [];
}
