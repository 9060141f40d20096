import { randomBytes } from "node:crypto";
import { errors } from "../kernel/errors.ts";
import type { Db, Tx } from "../platform/db/db.ts";
import { NIL_ID } from "../platform/lib/ids.ts";
import type { Log } from "../platform/telemetry/log.ts";
import { createDataKeysStore, type WrappedKey } from "./data-keys.store.ts";
import { vaultErrors } from "./errors.ts";
import { createKeks } from "./kek.ts";
import { KeyringError } from "./keyring.ts";
import type { Keyring } from "./keyring.types.ts";
import { computeIntegrityMac, type DataKey } from "./seal.ts";
import { type Kek, KekUnavailableError, type VaultFailure } from "./vault.types.ts";

/** The id of the service's own key, stored among the users' keys. No user has this id. */
const SERVICE = NIL_ID;
const KEY_BYTES = 32;
const FIRST_VERSION = 1;
const REWRAP_BATCH = 100;

/** The result of a rotation. */
export interface Rewrapped {
  readonly current_kek_id: string;
  readonly rewrapped: number;
  /** Keys that no master key opens, because someone changed their rows. */
  readonly unreadable: number;
}

/**
 * Creates and opens one data key per user, made with their first secret and wrapped by a master key. A plain key exists
 * only in memory; destroying it makes everything sealed with it unreadable. Owns `vault_key`.
 */
export function createDataKeys(deps: {
  db: Db;
  keyring: Keyring;
  log: Log;
  onFailure?: (cause: VaultFailure) => void;
}) {
  const { db, log, onFailure: failed = () => {} } = deps;
  const keks = createKeks(deps.keyring);
  const store = createDataKeysStore(db);

  const unavailable = (error: unknown): never => {
    if (!(error instanceof KekUnavailableError)) throw error;
    failed("key_service");
    log.error(
      { error },
      "The vault cannot be used until the key service works: check the service and this node's access to it.",
    );
    throw vaultErrors.vaultUnavailable();
  };
  /** Returns null when no configured master key opens it. */
  const opened = async (key: WrappedKey): Promise<DataKey | null> => {
    const bytes = await keks.get(key.kek_id)?.unwrap(key.wrapped, toContext(key, key.kek_id));
    return bytes?.length === KEY_BYTES ? { version: key.version, bytes } : null;
  };
  const unwrap = async (key: WrappedKey): Promise<DataKey> => {
    const data_key = await opened(key).catch(unavailable);
    if (data_key !== null) return data_key;
    failed("data_key");
    log.error(
      { user_id: key.user_id, kek_id: key.kek_id },
      "A data key does not open. Its master key or its row was changed: restore PURSER_KEK or the row.",
    );
    throw vaultErrors.vaultUnavailable();
  };
  const rewrap = async (key: WrappedKey, { bytes }: DataKey): Promise<boolean> => {
    const wrapped = await wrapChecked(keks.current, bytes, toContext(key, keks.current.id));
    return store.rewrap(key, { kek_id: keks.current.id, wrapped });
  };
  const make = async (user_id: string): Promise<void> => {
    const key = { version: FIRST_VERSION, bytes: randomBytes(KEY_BYTES) };
    const named = { user_id, version: key.version };
    const wrapped = await wrapChecked(keks.current, key.bytes, toContext(named, keks.current.id)).catch(unavailable);
    await store.insert(
      { ...named, kek_id: keks.current.id, wrapped },
      user_id === SERVICE ? null : computeIntegrityMac(key, []),
    );
  };
  const existing = async (user_id: string): Promise<WrappedKey | undefined> => {
    const row = await store.key(user_id);
    if (row === undefined) return undefined;
    const { wrapped } = row;
    if (wrapped === null) throw errors.unknown("This user"); // the user was erased during this request
    return { ...row, wrapped };
  };

  /** The user's key for writing. Creates it if missing, and wraps it again if an older master key wrapped it. */
  const toWrite = async (user_id: string): Promise<DataKey> => {
    let row = await existing(user_id);
    if (row === undefined) {
      await make(user_id);
      row = await existing(user_id);
    }
    if (row === undefined) throw new Error("A data key was created but is not stored.");
    const key = await unwrap(row);
    if (row.kek_id !== keks.current.id) await rewrap(row, key).catch(unavailable);
    return key;
  };

  return {
    /** Counts an error of the vault. */
    failed,
    unwrap,
    toWrite,
    /** The service's own key, for sealed data that belongs to no user. */
    ofService: async (): Promise<Uint8Array> => (await toWrite(SERVICE)).bytes,
    /** Destroys the user's key. Nothing sealed with it opens again, including copies of the rows. */
    destroy: (tx: Tx, user_id: string) => store.destroy(tx, user_id),

    /**
     * Checks that each master key in use is configured and unchanged, by unwrapping one data key of each. Throws a
     * KeyringError that names the failing key.
     */
    async check(): Promise<void> {
      for (const sample of await store.samples()) {
        const { kek_id } = sample;
        if (keks.get(kek_id) === undefined) {
          throw new KeyringError(
            `the key ${kek_id} is missing, and what is stored needs it; accepted: a list that has it`,
          );
        }
        if ((await opened(sample)) === null) {
          throw new KeyringError(
            `the key ${kek_id} does not open what the key of that id wrapped; accepted: the former key under this id`,
          );
        }
      }
    },
    /**
     * Wraps with the current master key every key that another one wrapped. `progress` receives the count so far. Can
     * be interrupted and restarted at any point, because either master key opens each row. Skips and counts keys that
     * do not open. Rejects with KekUnavailableError.
     */
    async rewrapAll(progress: (rewrapped: number) => void): Promise<Rewrapped> {
      const others = (after: string | null) => store.wrappedByOthers(keks.current.id, { after, limit: REWRAP_BATCH });
      let [rewrapped, unreadable] = [0, 0];
      for (let batch = await others(null); batch.length > 0; batch = await others(batch.at(-1)?.user_id ?? null)) {
        for (const key of batch) {
          const data_key = await opened(key);
          if (data_key === null) unreadable += 1;
          else if (await rewrap(key, data_key)) rewrapped += 1;
        }
        progress(rewrapped);
      }
      return { current_kek_id: keks.current.id, rewrapped, unreadable };
    },
  };
}

export type DataKeys = ReturnType<typeof createDataKeys>;

/** Binds a wrapped key to its row and its master key. */
function toContext({ user_id, version }: { user_id: string; version: number }, kek_id: string): string {
  return `purser data key 1 ${kek_id} ${user_id} ${version}`;
}

/** Unwraps a new key once before use, because a key damaged on its way would lose everything that it seals. */
async function wrapChecked(kek: Kek, bytes: Uint8Array, context: string): Promise<Buffer> {
  const wrapped = await kek.wrap(bytes, context);
  const back = await kek.unwrap(wrapped, context);
  if (back === null || Buffer.compare(back, bytes) !== 0) throw new KekUnavailableError(kek.id, "it does not unwrap");
  return wrapped;
}
