import type { Caller } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { type Clock, monotonicMs } from "../platform/clock.ts";
import type { Db, Instant } from "../platform/db.ts";
import type { AccountsStore, KeyStanding } from "./accounts.store.ts";
import { hashApiKey, isApiKey } from "./api-key.ts";

const BEARER = /^Bearer +(\S+)$/i;
/** design 6: a key found good is believed this long, unless a notification says that it changed. */
const CACHE_MS = 30_000;
const CACHE_MAX = 10_000;
const LAST_USED_FLUSH_MS = 60_000;

/** What `standing` says of a key presented now; throws the 401 or 403. Pure. */
export function judgeKey(standing: KeyStanding, presented_hash: Buffer, now: Instant): Caller {
  if (standing.erased_at !== null) throw errors.invalidApiKey();
  if (standing.revoked_at !== null) throw errors.revokedApiKey();
  const isPrevious = Buffer.compare(standing.key_hash, presented_hash) !== 0;
  if (isPrevious && (standing.previous_valid_until ?? "") <= now) throw errors.revokedApiKey();
  if (standing.expires_at !== null && standing.expires_at <= now) throw errors.expiredApiKey();
  if (standing.suspended_at !== null) throw errors.accountSuspended();
  return {
    user_id: standing.user_id,
    api_key_id: standing.id,
    key_budget_tokens: standing.budget_tokens,
    scopes: standing.scopes,
  };
}

/**
 * Turns an Authorization header into a caller. Keys found are cached; a trigger on their rows notifies every node, and
 * while notifications cannot be heard nothing is served from the cache.
 */
export async function createAuthentication(deps: { db: Db; clock: Clock; store: AccountsStore }) {
  const { db, clock, store } = deps;
  const cache = new Map<string, { standing: KeyStanding; until_ms: number }>();
  const used = new Set<string>();
  /** Counts what was heard: a row that was read before a change was heard of may show the key as it was. */
  let changes = 0;

  const forget = (api_key_id: string) => {
    changes += 1;
    for (const [key, { standing }] of cache) if (standing.id === api_key_id) cache.delete(key);
  };
  const forgetAll = () => {
    changes += 1;
    cache.clear();
  };
  const stopListening = await db.listen("api_key_changed", forget, forgetAll);

  const standingOf = async (key: string, key_hash: Buffer): Promise<KeyStanding> => {
    const cache_key = key_hash.toString("base64");
    const cached = cache.get(cache_key);
    if (cached !== undefined && cached.until_ms > monotonicMs() && db.isListening()) return cached.standing;
    if (!isApiKey(key)) throw errors.invalidApiKey();
    const changes_before = changes;
    const standing = await store.keyByHash(key_hash);
    if (standing === undefined) throw errors.invalidApiKey();
    if (changes !== changes_before || !db.isListening()) return standing;
    if (cache.size >= CACHE_MAX) cache.clear();
    cache.set(cache_key, { standing, until_ms: monotonicMs() + CACHE_MS });
    return standing;
  };

  const flushLastUsed = async () => {
    const ids = [...used];
    used.clear();
    if (ids.length > 0) await store.touchKeys(ids, clock.now());
  };
  const timer = setInterval(() => flushLastUsed().catch(() => {}), LAST_USED_FLUSH_MS);

  return {
    async authenticate(authorization: string | undefined): Promise<Caller> {
      if (authorization === undefined || authorization === "") throw errors.missingApiKey();
      const key = BEARER.exec(authorization)?.[1];
      if (key === undefined) throw errors.invalidApiKey();
      const key_hash = hashApiKey(key);
      const caller = judgeKey(await standingOf(key, key_hash), key_hash, clock.now());
      used.add(caller.api_key_id as string);
      return caller;
    },
    flushLastUsed,
    async close() {
      clearInterval(timer);
      await flushLastUsed();
      await stopListening();
    },
  };
}
