import { randomBytes } from "node:crypto";
import { errors } from "../errors.ts";
import type { Db, Tx } from "../platform/db.ts";
import type { Log } from "../platform/log.ts";
import { createDataKeysStore, type WrappedKey } from "./data-keys.store.ts";
import { createKeks } from "./kek.ts";
import { type Kek, KekUnavailableError } from "./kek.types.ts";
import { KeyringError } from "./keyring.ts";
import type { Keyring } from "./keyring.types.ts";
import { manifestOf } from "./manifest.ts";
import type { DataKey } from "./seal.ts";

/** The service's own key stands among the users' under this id, which is no user's. */
const SERVICE = "00000000-0000-0000-0000-000000000000";
const KEY_BYTES = 32;
const FIRST_VERSION = 1;
const REWRAP_BATCH = 100;

/** What a rotation did. */
export interface Rewrapped {
  readonly current_kek_id: string;
  readonly rewrapped: number;
  /** Keys that no master key opens: their rows were changed from outside. */
  readonly unreadable: number;
}

/**
 * One key for each user, made when they store their first secret, wrapped by a master key. It is never kept in the
 * clear but in memory, and its end is the end of all that it sealed. Owns `vault_key`.
 */
export function createDataKeys(deps: { db: Db; keyring: Keyring; log: Log }) {
  const { db, log } = deps;
  const keks = createKeks(deps.keyring);
  const store = createDataKeysStore(db);

  /** null: no master key that is here opens it. */
  const opened = async (key: WrappedKey): Promise<DataKey | null> => {
    const bytes = await keks.get(key.kek_id)?.unwrap(key.wrapped, contextOf(key, key.kek_id));
    return bytes?.length === KEY_BYTES ? { version: key.version, bytes } : null;
  };
  const unwrap = async (key: WrappedKey): Promise<DataKey> => {
    const data_key = await opened(key).catch(unavailable(log));
    if (data_key !== null) return data_key;
    log.error({ user_id: key.user_id, kek_id: key.kek_id }, "a data key does not open: a key or a row was changed");
    throw errors.vaultUnavailable();
  };
  const rewrap = async (key: WrappedKey, { bytes }: DataKey): Promise<boolean> => {
    const wrapped = await wrapChecked(keks.current, bytes, contextOf(key, keks.current.id));
    return store.rewrap(key, { kek_id: keks.current.id, wrapped });
  };
  const make = async (user_id: string): Promise<void> => {
    const key = { version: FIRST_VERSION, bytes: randomBytes(KEY_BYTES) };
    const named = { user_id, version: key.version };
    const wrapped = await wrapChecked(keks.current, key.bytes, contextOf(named, keks.current.id)).catch(
      unavailable(log),
    );
    await store.insert(
      { ...named, kek_id: keks.current.id, wrapped },
      user_id === SERVICE ? null : manifestOf(key, []),
    );
  };
  const existing = async (user_id: string): Promise<WrappedKey | undefined> => {
    const row = await store.key(user_id);
    if (row === undefined) return undefined;
    const { wrapped } = row;
    if (wrapped === null) throw errors.notFound("This user"); // erased, with a request still under way
    return { ...row, wrapped };
  };

  /** The user's key, to write with: made when there is none, wrapped anew when an older master key did it. */
  const toWrite = async (user_id: string): Promise<DataKey> => {
    let row = await existing(user_id);
    if (row === undefined) {
      await make(user_id);
      row = await existing(user_id);
    }
    if (row === undefined) throw new Error("a data key was made and is not there");
    const key = await unwrap(row);
    if (row.kek_id !== keks.current.id) await rewrap(row, key).catch(unavailable(log));
    return key;
  };

  return {
    unwrap,
    toWrite,
    /** The service's own key, which is not of any user: for what is kept sealed elsewhere. */
    ofService: async (): Promise<Uint8Array> => (await toWrite(SERVICE)).bytes,
    /** Destroys the user's key, so that nothing sealed with it opens again, here or in what copies of the rows remain. */
    destroy: (tx: Tx, user_id: string) => store.destroy(tx, user_id),

    /**
     * Whether each master key in use is here and is the one it was: a data key of each is unwrapped. Throws a KeyringError
     * that names the one that is not.
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
     * Wraps by the current master key whatever another one wrapped; `progress` hears how many so far. Can be broken off
     * and begun again at any point: each key is one row, and either master key opens it. One that does not open is left
     * as it is and counted. Rejects with KekUnavailableError.
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

/** What binds a wrapped key to its row and to the master key that wrapped it. */
function contextOf({ user_id, version }: { user_id: string; version: number }, kek_id: string): string {
  return `purser data key 1 ${kek_id} ${user_id} ${version}`;
}

/** A key that was wrapped wrongly on its way would lose all that it seals: it is unwrapped once before it is used. */
async function wrapChecked(kek: Kek, bytes: Uint8Array, context: string): Promise<Buffer> {
  const wrapped = await kek.wrap(bytes, context);
  const back = await kek.unwrap(wrapped, context);
  if (back === null || Buffer.compare(back, bytes) !== 0) throw new KekUnavailableError(kek.id, "it does not unwrap");
  return wrapped;
}

function unavailable(log: Log) {
  return (error: unknown): never => {
    if (!(error instanceof KekUnavailableError)) throw error;
    log.error({ error: error.message }, "the vault cannot be used");
    throw errors.vaultUnavailable();
  };
}
