import { timingSafeEqual } from "node:crypto";
import { userErrors } from "../account/users/errors.ts";
import { hashApiKey, newToken, rejectInvalidKey } from "../account/users/tokens.ts";
import type { Operator } from "../api/contract/caller.ts";
import type { CreateOperatorKey, OperatorKeyRecord } from "../api/contract/operators.ts";
import { errors } from "../kernel/errors.ts";
import { createBatches } from "../platform/db/batch-queue.ts";
import type { Db } from "../platform/db/db.ts";
import { createNotifiedCache } from "../platform/db/notified-cache.ts";
import { addSeconds, type Clock, monotonicMs } from "../platform/lib/clock.ts";
import { isUuid, newId } from "../platform/lib/ids.ts";
import type { Actor, Acts } from "./acts.service.ts";
import { createOperatorKeysStore, type OperatorKeyRow } from "./operator-keys.store.ts";

const PREFIX = "purser_operator_";
const KEY_SHAPE = /^purser_operator_[A-Za-z0-9_-]{43}$/;
/** Keys that one query looks up. */
const BATCH_LIMIT = 64;
/** `last_used_at` is written this often. */
const TOUCH_MS = 60_000;
/** The operator with PURSER_ADMIN_KEY. */
const ROOT: Operator = { id: null, name: "PURSER_ADMIN_KEY", role: "admin" };

type NewKey = Omit<CreateOperatorKey, "reason">;

/** Operators' keys: PURSER_ADMIN_KEY and named keys with a role. Owns `operator_key`. */
export async function createOperatorKeys(deps: { db: Db; clock: Clock; acts: Acts; admin_key: string | null }) {
  const { db, clock, acts } = deps;
  const root_hash = deps.admin_key === null ? null : hashApiKey(deps.admin_key);
  const store = createOperatorKeysStore(db);
  const cache = await createNotifiedCache<OperatorKeyRow>({
    db,
    channel: "operator_key_changed",
    subjectOf: ({ id }) => id,
  });
  /** One query at a time, so that a flood of invented keys takes no more than one connection. */
  const find = createBatches(BATCH_LIMIT, store.byHash);
  const touched_ms = new Map<string, number>();

  const forget = (id: string) => cache.forget((key) => key.id === id);
  const noteUse = (id: string) => {
    const now_ms = monotonicMs();
    if (now_ms - (touched_ms.get(id) ?? -TOUCH_MS) < TOUCH_MS) return;
    touched_ms.set(id, now_ms);
    store.touch(id, clock.now()).catch(() => touched_ms.delete(id));
  };

  const recordOf = (row: OperatorKeyRow): OperatorKeyRecord => {
    const { key_hash: _hash, previous_key_hash: _previous, previous_valid_until: _until, ...record } = row;
    return record;
  };
  const aboutKey = (row: Pick<OperatorKeyRow, "id" | "name" | "role">) => ({
    target: { type: "operator_key", id: row.id },
    after: { name: row.name, role: row.role },
  });

  return {
    /** Returns the operator of a key. Throws 401; 404 when the operator API is off. */
    async authenticate(key: string): Promise<Operator> {
      if (root_hash === null) throw errors.unknown("The operator API", "Set PURSER_ADMIN_KEY.");
      const hash = hashApiKey(key);
      // Hashes of equal length are compared, so that the time reveals nothing.
      if (timingSafeEqual(hash, root_hash)) return ROOT;
      const load = async () => (KEY_SHAPE.test(key) ? find(hash) : undefined);
      const row = await cache.get(hash.toString("base64"), load);
      if (row === undefined) throw userErrors.invalidApiKey();
      rejectInvalidKey(row, hash, clock.now());
      noteUse(row.id);
      return { id: row.id, name: row.name, role: row.role };
    },
    /** Newest first, revoked ones included. */
    async list(page: { limit: number; before_id: string | null }): Promise<OperatorKeyRecord[]> {
      return (await store.list(page)).map(recordOf);
    },
    /** Creates a key. It is shown this once. Throws 400 for an expiry in the past. */
    async create(actor: Actor, { name, role, expires_at = null }: NewKey, reason: string | undefined) {
      const now = clock.now();
      if (expires_at !== null && expires_at <= now)
        throw errors.invalidValue("expires_at", "expires_at lies in the past. Give a later instant, or null for none.");
      const secret = newSecret();
      const row = {
        id: newId(),
        name,
        role,
        ...secret.stored,
        previous_key_hash: null,
        previous_valid_until: null,
        last_used_at: null,
        revoked_at: null,
        created_at: now,
        expires_at,
      };
      await db.transaction(async (tx) => {
        await store.insert(tx, row);
        const { target, after } = aboutKey(row);
        await acts.record(tx, actor, { what: "operator_key.create", target, after: { ...after, expires_at }, reason });
      });
      return { ...recordOf(row), key: secret.key };
    },
    /** Revokes a key on every node. Revoking twice is harmless. */
    async revoke(actor: Actor, id: string, reason: string | undefined): Promise<void> {
      await db.transaction(async (tx) => {
        const row = isUuid(id) ? await store.lock(tx, id) : undefined;
        if (row === undefined) throw errors.unknown("This operator key");
        if (row.revoked_at !== null) return;
        await store.revoke(tx, id, clock.now());
        tx.afterCommit(() => forget(row.id));
        await acts.record(tx, actor, { what: "operator_key.revoke", ...aboutKey(row), reason });
      });
    },
    /** Replaces the secret of a key. The old secret works for `grace_seconds`. Throws 409 for a revoked key. */
    async rotate(
      actor: Actor,
      id: string,
      { grace_seconds, reason }: { grace_seconds: number; reason?: string | undefined },
    ) {
      const secret = newSecret();
      const rotated = await db.transaction(async (tx) => {
        const row = isUuid(id) ? await store.lock(tx, id) : undefined;
        if (row === undefined) throw errors.unknown("This operator key");
        if (row.revoked_at !== null) throw userErrors.keyRevoked();
        const previous_valid_until = addSeconds(clock.now(), grace_seconds);
        const replaced = await store.rotate(tx, {
          id: row.id,
          ...secret.stored,
          previous_key_hash: row.key_hash,
          previous_valid_until,
        });
        tx.afterCommit(() => forget(row.id));
        const { target, after } = aboutKey(row);
        const change = { target, after: { ...after, grace_seconds }, reason };
        await acts.record(tx, actor, { what: "operator_key.rotate", ...change });
        return replaced;
      });
      return { ...recordOf(rotated), key: secret.key };
    },
    close: cache.close,
  };
}

export type OperatorKeys = Awaited<ReturnType<typeof createOperatorKeys>>;

function newSecret() {
  const key = `${PREFIX}${newToken().token}`;
  return { key, stored: { key_hash: hashApiKey(key), last_four: key.slice(-4) } };
}
