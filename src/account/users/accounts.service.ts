import type { ApiKeyRecord } from "../../api/contract/accounts.ts";
import { type Caller, DEFAULT_SCOPES, type OperatorRole } from "../../api/contract/caller.ts";
import { budgetResetsAt, budgetUse, type KeySpend, type UserLimits } from "../../api/contract/key-terms.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { isUniqueViolation } from "../../kernel/sql-state.ts";
import type { Db, InSameTx, Sql, Tx } from "../../platform/db/db.ts";
import { hasMoreRows } from "../../platform/db/statements.ts";
import { addSeconds, type Clock } from "../../platform/lib/clock.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import {
  type AccountsStore,
  type ApiKeyRow,
  createAccountsStore,
  getRoutingBucket,
  type KeyTermsRow,
  type UserPage,
  type UserRow,
  VALID_KEY,
} from "./accounts.store.ts";
import { createAuthentication } from "./authentication.ts";
import { userErrors } from "./errors.ts";
import {
  isBroader,
  type KeyChanges,
  type NewApiKey,
  refuseBroader,
  refuseLoneInterval,
  refusePast,
  settingsAfter,
  storedLimits,
} from "./key-rules.ts";
import {
  ALL_BUCKETS,
  hashApiKey,
  isApiKey,
  newApiKey,
  newRoutingBucket,
  type RoutingBuckets,
  shownParts,
} from "./tokens.ts";

export interface User {
  id: string;
  email: string | null;
  created_at: Instant;
  suspended_at: Instant | null;
  /** null: the operator has set none. */
  limits: UserLimits | null;
  /** null: no operator. */
  operator_role: OperatorRole | null;
}

export type ApiKey = Omit<ApiKeyRecord, "spent_tokens" | "budget_used_tokens" | "budget_resets_at">;

/** The columns of a key that its dependents read. */
export type KeyState = KeyTermsRow & { user_id: string };
/** Called in the transaction of a key's change. They may await only SQL. */
interface KeyListener {
  /** Gets the key as it will be. Locks the rows that depend on the key, before the key itself is locked. */
  beforeKeyChange(tx: Tx, key: KeyState): Promise<void>;
  afterKeyRevoked(tx: Tx, key: KeyState): Promise<void>;
}

/** Users and their API keys. Owns `users` and `api_key`. */
export async function createAccounts(deps: { db: Db; clock: Clock; routing_buckets?: RoutingBuckets }) {
  const { db, clock, routing_buckets = ALL_BUCKETS } = deps;
  const store = createAccountsStore(db);
  const authentication = await createAuthentication({ db, clock, store });

  const newKey = async (sql: Sql, user_id: string) => {
    const bucket = await getRoutingBucket(sql, user_id, newRoutingBucket(routing_buckets));
    if (bucket === undefined) throw errors.unknown("This user");
    return newApiKey(bucket);
  };
  const insertKey = async (sql: Sql, user_id: string, wanted: NewApiKey) => {
    const key = await newKey(sql, user_id);
    const row = newKeyRow(user_id, key, wanted, clock.now());
    await store.insertKey(sql, row);
    return { ...keyRecord(row), key };
  };

  const forgetKey = (id: string) => authentication.forget((key) => key.id === id);
  const forgetKeysOf = (user_id: string) => authentication.forget((key) => key.user_id === user_id);

  const key_listeners: KeyListener[] = [];
  /** Changes a key by `write` and notifies all listeners. */
  const changeKey = <T>(key: KeyState, write: (tx: Tx) => Promise<T>): Promise<T> =>
    db.transaction(async (tx) => {
      for (const { beforeKeyChange } of key_listeners) await beforeKeyChange(tx, key);
      const written = await write(tx);
      if (key.revoked_at !== null) for (const { afterKeyRevoked } of key_listeners) await afterKeyRevoked(tx, key);
      tx.afterCommit(() => forgetKey(key.id));
      return written;
    });

  const ownKey = (caller: Caller, tx?: Tx) => getOwnKey(store, caller, tx);

  return {
    authenticate: authentication.authenticate,
    close: authentication.close,
    onKeyChange: (listener: KeyListener) => void key_listeners.push(listener),
    /** Returns these keys by id and locks them until the transaction ends. */
    async keysOf(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, Omit<KeyState, "user_id">>> {
      return new Map((await store.keepKeys(tx, ids)).map((key) => [key.id, key]));
    },

    /** Creates a user with a first key in the caller's transaction. Throws 409 when the address is taken. */
    async createUser(tx: Tx, wanted: { email: string; key_name: string }) {
      const row = { id: newId(), email: wanted.email.toLowerCase(), created_at: clock.now() };
      try {
        const user = userRecord(await store.insertUser(tx, row));
        return { user, api_key: await insertKey(tx, user.id, { name: wanted.key_name }) };
      } catch (error) {
        if (!isUniqueViolation(error)) throw error;
        throw userErrors.userExists();
      }
    },
    /** Returns the user. Throws 404 for unknown users, and without `also_erased` for erased ones. */
    async user(id: string, { also_erased = false }: { also_erased?: boolean | undefined } = {}): Promise<User> {
      const row = isUuid(id) ? await store.user(id) : undefined;
      if (row === undefined || (row.erased_at !== null && !also_erased)) throw errors.unknown("This user");
      return userRecord(row);
    },
    async users(page: UserPage): Promise<User[]> {
      return (await store.users(page)).map(userRecord);
    },
    ...userCorrections(store, clock, forgetKeysOf),
    /** Returns the suspended ones of these users. */
    async suspended(sql: Sql, user_ids: readonly string[]): Promise<ReadonlySet<string>> {
      return new Set(await store.suspendedIds(sql, user_ids));
    },
    /**
     * Erases the user's personal data with the names of their keys, and revokes the keys, in the caller's transaction.
     * Returns the erased address. Throws 404 when the user does not exist.
     */
    async eraseUser(tx: Tx, id: string): Promise<string> {
      const erased = isUuid(id) ? await store.eraseUser(tx, id, clock.now()) : undefined;
      if (erased === undefined) throw errors.unknown("This user");
      await store.revokeKeysOf(tx, id, clock.now());
      await store.forgetKeyNames(tx, id);
      tx.afterCommit(() => forgetKeysOf(id.toLowerCase()));
      return erased.email;
    },

    async apiKeys(user_id: string, page: { limit: number; before_id: string | null }): Promise<ApiKey[]> {
      // Uses are written once a minute. Flush this node's uses before the list is read.
      await authentication.flushLastUsed();
      return (await store.keys(user_id, page)).map(keyRecord);
    },
    /** Throws 404 when it is not the user's. */
    async apiKey(user_id: string, id: string): Promise<ApiKey> {
      const row = isUuid(id) ? await store.key(user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This API key");
      return keyRecord(row);
    },
    /** Returns the names of the user's keys among `ids`, revoked ones included. */
    async keyNames(user_id: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
      if (ids.length === 0) return new Map();
      return new Map((await store.keyNames(user_id, ids)).map(({ id, name }) => [id, name]));
    },
    /** Creates a key, no broader than the caller in scopes or lifetime. Throws 403 for a key with a budget, 409 beyond the limit. */
    async createApiKey(caller: Caller, wanted: NewApiKey, also?: InSameTx<ApiKey>): Promise<ApiKey & { key: string }> {
      const scopes = wanted.scopes ?? caller.scopes.filter((scope) => DEFAULT_SCOPES.includes(scope));
      refuseLoneInterval(wanted);
      return db.transaction(async (tx) => {
        refuseBroader(caller, await ownKey(caller, tx), { ...wanted, scopes });
        refusePast(wanted.expires_at ?? null, clock.now());
        const { key, ...record } = await insertKey(tx, caller.user_id, { ...wanted, scopes });
        await limitKeys(tx, store, caller.user_id, clock.now());
        await also?.(tx, record);
        return { ...record, key };
      });
    },
    /** Revokes a key on every node. Revoking twice is harmless. Throws 404 when it is not the user's. */
    async revokeApiKey(user_id: string, id: string, also?: InSameTx<ApiKey>): Promise<void> {
      const row = isUuid(id) ? await store.key(user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This API key");
      const now = clock.now();
      await changeKey({ ...row, revoked_at: row.revoked_at ?? now }, async (tx) => {
        await store.revokeKey(tx, row, now);
        await also?.(tx, keyRecord(row));
      });
    },
    /**
     * Changes the given fields. A caller cannot give a key a larger budget or a later expiry than it could give a
     * new key: 403, or 400 for the expiry. Throws 409 when the key is revoked.
     */
    async updateApiKey(caller: Caller, id: string, changes: KeyChanges): Promise<ApiKey> {
      const row = isUuid(id) ? await store.key(caller.user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This API key");
      if (row.revoked_at !== null) throw userErrors.keyRevoked();
      const set = settingsAfter(row, changes);
      refuseLoneInterval(set);
      const is_broader = isBroader(set, row);
      if (is_broader) refuseBroader(caller, await ownKey(caller), { ...row, ...set });
      if (set.expires_at !== row.expires_at) refusePast(set.expires_at, clock.now());
      const updated = await changeKey({ ...row, ...set }, async (tx) => {
        if (is_broader) refuseBroader(caller, await ownKey(caller, tx), { ...row, ...set });
        return store.updateKey(tx, row, set);
      });
      if (updated === undefined) throw userErrors.keyChanged();
      return keyRecord(updated);
    },
    /** Creates a new secret under the same id and keeps its history. The old secret works for `grace_seconds`. */
    async rotateApiKey(caller: Caller, id: string, grace_seconds: number): Promise<ApiKey & { key: string }> {
      const { user_id } = caller;
      const row = isUuid(id) ? await store.key(user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This API key");
      const { key, rotated } = await db.transaction(async (tx) => {
        // Rotating shows the new secret, so rotating a broader key would create one.
        if (row.id !== caller.api_key_id) refuseBroader(caller, await ownKey(caller, tx), row);
        if (row.revoked_at !== null) throw userErrors.keyRevoked();
        const key = await newKey(tx, user_id);
        const previous = {
          previous_key_hash: row.key_hash,
          previous_valid_until: addSeconds(clock.now(), grace_seconds),
        };
        const rotated = await store.rotateKey(tx, {
          user_id,
          id,
          key_hash: hashApiKey(key),
          ...shownParts(key),
          ...previous,
        });
        return { key, rotated };
      });
      if (rotated === undefined) throw userErrors.keyRotated();
      forgetKey(row.id);
      return { ...keyRecord(rotated), key };
    },
    /** Revokes a leaked key if it exists. */
    async revokeLeakedKey(key: string): Promise<void> {
      if (!isApiKey(key)) return;
      const hash = hashApiKey(key);
      const [found] = await store.keysByHash([hash]);
      if (found === undefined || found.revoked_at !== null) return;
      const now = clock.now();
      // Only the previous secret of a rotated key is revoked.
      const is_current = Buffer.compare(found.key_hash, hash) === 0;
      await changeKey({ ...found, revoked_at: is_current ? now : null }, (tx) => store.revokeKeyByHash(tx, hash, now));
    },
  };
}

/** What operators correct of users. */
function userCorrections(store: AccountsStore, clock: Clock, forgetKeysOf: (user_id: string) => void) {
  return {
    /** Suspends or resumes a user. A suspended user's keys answer 403 on every node at once. */
    async setSuspended(tx: Tx, id: string, suspended: boolean): Promise<User> {
      const row = isUuid(id) ? await store.setSuspended(tx, id, suspended ? clock.now() : null) : undefined;
      if (row === undefined) throw errors.unknown("This user");
      tx.afterCommit(() => forgetKeysOf(row.id));
      return userRecord(row);
    },
    /** Who the caller is: the user, or the key with its name. */
    async identify({ user_id, api_key_id }: Caller) {
      if (api_key_id === null) {
        return { type: "user" as const, id: user_id, name: (await store.user(user_id))?.email ?? null };
      }
      return { type: "api_key" as const, id: api_key_id, name: (await store.key(user_id, api_key_id))?.name ?? null };
    },
    /** Returns the user and locks them until the transaction ends. Throws 404 for unknown and erased users. */
    async lockUser(tx: Tx, id: string): Promise<User> {
      const row = isUuid(id) ? await store.lockUser(tx, id) : undefined;
      if (row === undefined) throw errors.unknown("This user");
      return userRecord(row);
    },
    /** Changes the address of a user. Throws 409 when another user has it. */
    async setEmail(tx: Tx, id: string, email: string): Promise<void> {
      try {
        await store.setEmail(tx, id, email.toLowerCase());
      } catch (error) {
        if (!isUniqueViolation(error)) throw error;
        throw userErrors.userExists();
      }
    },
    setOperatorRole: store.setOperatorRole,
    /** Replaces the limits that are given, in the caller's transaction; null removes all. Returns the new ones. */
    async setLimits(tx: Tx, { id, limits: before }: User, changes: UserLimits | null): Promise<UserLimits | null> {
      const limits = changes === null ? null : { ...before, ...changes };
      await store.setLimits(tx, id, limits);
      return limits;
    },
  };
}

export type Accounts = Awaited<ReturnType<typeof createAccounts>>;

function newKeyRow(user_id: string, key: string, wanted: NewApiKey, created_at: Instant): ApiKeyRow {
  return {
    id: newId(),
    user_id,
    name: wanted.name,
    key_hash: hashApiKey(key),
    previous_key_hash: null,
    previous_valid_until: null,
    ...shownParts(key),
    scopes: [...new Set(wanted.scopes ?? DEFAULT_SCOPES)],
    budget_tokens: wanted.budget_tokens ?? null,
    budget_interval: wanted.budget_interval ?? null,
    allowed_models: wanted.allowed_models ?? null,
    limits: storedLimits(wanted.limits ?? null),
    created_at,
    expires_at: wanted.expires_at ?? null,
    last_used_at: null,
    revoked_at: null,
  };
}

/** Called after an insert. Throws 409 when the user has too many keys, and deletes the oldest that are revoked or expired. */
async function limitKeys(tx: Tx, store: AccountsStore, user_id: string, now: Instant): Promise<void> {
  const most = USER_ROWS.api_keys;
  const valid = { table: "api_key", user_id, where: VALID_KEY, values: [now], most };
  if (await hasMoreRows(tx, valid)) throw userErrors.apiKeyLimitReached();
  await store.forgetEndedKeys(tx, user_id, { now, most });
}

/** The caller's own key; undefined: the console or the operator. With `tx` locked, so that it is changed before or after. */
async function getOwnKey(
  store: AccountsStore,
  { user_id, api_key_id }: Caller,
  tx?: Tx,
): Promise<ApiKeyRow | undefined> {
  if (api_key_id === null) return undefined;
  const own = await (tx === undefined ? store.key(user_id, api_key_id) : store.lockKey(tx, user_id, api_key_id));
  if (own === undefined || own.revoked_at !== null) throw userErrors.revokedApiKey();
  return own;
}

function userRecord(row: UserRow): User {
  const { id, email, created_at, suspended_at, limits, operator_role } = row;
  return { id, email, created_at, suspended_at, limits, operator_role };
}

/** A key as the API shows it. Only these columns: hashes stay here. */
function keyRecord(row: ApiKeyRow): ApiKey {
  const { id, name, prefix, last_four, scopes, budget_tokens, budget_interval } = row;
  const { created_at, expires_at, last_used_at, revoked_at } = row;
  const { requests_per_minute = null, tokens_per_minute = null, concurrent_runs = null } = row.limits ?? {};
  return {
    id,
    name,
    prefix,
    last_four,
    scopes,
    budget_tokens,
    budget_interval,
    allowed_models: row.allowed_models === null ? null : [...row.allowed_models],
    limits: { requests_per_minute, tokens_per_minute, concurrent_runs },
    created_at,
    expires_at,
    last_used_at,
    revoked_at,
  };
}

/** A key as the API shows it, with the tokens that it has spent. */
export function withSpend<Key extends ApiKey>(key: Key, spend: KeySpend | undefined, now: Instant) {
  return {
    ...key,
    spent_tokens: spend?.spent ?? 0,
    budget_used_tokens: budgetUse(spend, key.budget_interval),
    budget_resets_at: budgetResetsAt(key.budget_interval, now),
  };
}
