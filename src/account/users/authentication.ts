import type { Caller } from "../../api/contract/caller.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db } from "../../platform/db/db.ts";
import { createNotifiedCache } from "../../platform/db/notified-cache.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { AccountsStore, KeyStatus } from "./accounts.store.ts";
import { userErrors } from "./errors.ts";
import { hashApiKey, isApiKey, rejectInvalidKey } from "./tokens.ts";

const BEARER = /^Bearer +(\S+)$/i;
const LAST_USED_FLUSH_MS = 60_000;
/** Keys that one query looks up. */
const BATCH_LIMIT = 64;

/** Returns the caller of a presented key. Throws 401 or 403. Pure. */
export function judgeKey(status: KeyStatus, presented_hash: Buffer, now: Instant): Caller {
  if (status.erased_at !== null) throw userErrors.invalidApiKey();
  rejectInvalidKey(status, presented_hash, now);
  if (status.suspended_at !== null) throw userErrors.accountSuspended();
  return {
    user_id: status.user_id,
    api_key_id: status.id,
    key_budget_tokens: status.budget_tokens,
    key_budget_interval: status.budget_interval,
    allowed_models: status.allowed_models,
    key_limits: status.limits,
    scopes: status.scopes,
  };
}

/**
 * Returns the caller of an Authorization header. Keys are cached until a notification says that they changed
 * (platform/db/notified-cache.ts).
 */
export async function createAuthentication(deps: { db: Db; clock: Clock; store: AccountsStore }) {
  const { db, clock, store } = deps;
  const statuses = await createNotifiedCache<KeyStatus>({
    db,
    channel: "api_key_changed",
    subjectOf: ({ id }) => id,
  });
  /** One query at a time, so that a flood of invented keys takes no more than one connection. */
  const find = createBatches(BATCH_LIMIT, store.keysByHash);
  const used = new Set<string>();

  /** Checks the checksum first, so a text that is not a key costs no query. */
  const getStatus = async (key: string, key_hash: Buffer): Promise<KeyStatus> => {
    const load = async () => (isApiKey(key) ? find(key_hash) : undefined);
    const status = await statuses.get(key_hash.toString("base64"), load);
    if (status === undefined) throw userErrors.invalidApiKey();
    return status;
  };

  const flushLastUsed = async () => {
    const ids = [...used];
    used.clear();
    if (ids.length > 0) await store.touchKeys(ids, clock.now());
  };
  const timer = setInterval(() => flushLastUsed().catch(() => {}), LAST_USED_FLUSH_MS);

  return {
    async authenticate(authorization: string | undefined): Promise<Caller> {
      if (authorization === undefined || authorization === "") throw httpErrors.missingApiKey();
      const key = BEARER.exec(authorization)?.[1];
      if (key === undefined) throw userErrors.noBearerKey();
      const key_hash = hashApiKey(key);
      const caller = judgeKey(await getStatus(key, key_hash), key_hash, clock.now());
      used.add(caller.api_key_id as string);
      return caller;
    },
    flushLastUsed,
    forget: statuses.forget,
    async close() {
      clearInterval(timer);
      await flushLastUsed();
      await statuses.close();
    },
  };
}
