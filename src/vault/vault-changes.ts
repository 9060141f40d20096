import { findNamed } from "../api/contract/secrets.ts";
import { USER_ROWS } from "../kernel/constants.ts";
import { errors } from "../kernel/errors.ts";
import type { Db, Tx } from "../platform/db/db.ts";
import { isUuid } from "../platform/lib/ids.ts";
import type { Log } from "../platform/telemetry/log.ts";
import type { DataKeys } from "./data-keys.service.ts";
import { vaultErrors } from "./errors.ts";
import { computeIntegrityMac, type DataKey, isIntegrityMacOf, type RowIdentity, unseal } from "./seal.ts";
import type { HeldKey, SealedRow, SecretRow, VaultStore } from "./vault.store.ts";

/** Reads and changes of a user's secrets that keep the integrity MAC, for the services of this module. */
export function createVaultChanges({ db, store, keys, log }: { db: Db; store: VaultStore; keys: DataKeys; log: Log }) {
  const throwTampered = (user_id: string): never => {
    keys.failed("rows");
    log.error(
      { user_id },
      "The secrets do not match their user's integrity MAC. Rows were changed outside Purser: restore them from a backup.",
    );
    throw vaultErrors.vaultUnavailable();
  };
  /** Changes the user's secrets one change at a time and writes the new integrity MAC. */
  const change = async <T>(user_id: string, key: DataKey, work: (tx: Tx, count: number) => Promise<T>): Promise<T> =>
    db.transaction(async (tx) => {
      const held = await store.lock(tx, user_id);
      if (held === undefined || held.wrapped === null) throw errors.unknown("This user"); // the user was erased meanwhile
      // Never sign rows that do not match the current MAC.
      if (!isIntegrityMacOf(held.manifest ?? new Uint8Array(), key, held.entries)) throwTampered(user_id);
      const result = await work(tx, held.entries.length);
      await store.setIntegrityMac(tx, user_id, computeIntegrityMac(key, await store.entries(tx, user_id)));
      return result;
    });
  /** The user's key, and the value of a row that was read with it. null: rows were changed outside Purser. */
  const opened = async (secret: SealedRow, held: HeldKey) => {
    const key = await keys.unwrap({ ...held, user_id: secret.user_id, wrapped: held.wrapped as Uint8Array });
    const intact = isIntegrityMacOf(held.manifest ?? new Uint8Array(), key, held.entries);
    const value = intact ? unseal(secret.sealed, rowIdentity(secret), key) : null;
    if (value !== null) return { key, value };
    keys.failed("rows");
    log.error(
      { user_id: secret.user_id, secret_id: secret.id },
      "A secret does not open. Rows were changed outside Purser: restore them from a backup.",
    );
    return null;
  };
  return {
    throwTampered,
    change,
    opened,
    /** Stores a new secret. Throws 409 name_taken or secret_limit_reached. */
    async insert(row: SealedRow, key: DataKey): Promise<void> {
      const { user_id } = row;
      await change(user_id, key, async (tx, count) => {
        if (count >= USER_ROWS.secrets) throw vaultErrors.secretLimitReached();
        const taken = findNamed(await store.names(user_id, tx), row.name);
        if (taken !== undefined) throw vaultErrors.nameTaken(`A secret named ${taken.name}`);
        await store.insert(tx, row);
      });
    },
    /** The secret as listed. Throws 404 when it is not the user's. */
    async own(user_id: string, id: string): Promise<SecretRow> {
      const row = isUuid(id) ? await store.secret(user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This secret");
      return row;
    },
  };
}

export type VaultChanges = ReturnType<typeof createVaultChanges>;

/** What binds the row's value to it. */
export function rowIdentity(
  row: Pick<SecretRow, "user_id" | "id" | "name" | "version" | "allowed_hosts" | "oauth">,
): RowIdentity {
  const { user_id, id, name, version, allowed_hosts, oauth } = row;
  return { user_id, secret_id: id, name, version, allowed_hosts, is_oauth: oauth !== null };
}
