import type { Caller } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Instant } from "../platform/db.ts";
import { createNotifiedCache } from "../platform/notified-cache.ts";
import type { AccountsStore, KeyStanding } from "./accounts.store.ts";
import { hashApiKey, isApiKey } from "./api-key.ts";

const BEARER = /^Bearer +(\S+)$/i;
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
 * Turns an Authorization header into a caller. Keys found are cached until a notification says that they changed
 * (platform/notified-cache.ts).
 */
export async function createAuthentication(deps: { db: Db; clock: Clock; store: AccountsStore }) {
  const { db, clock, store } = deps;
  const standings = await createNotifiedCache<KeyStanding>({
    db,
    channel: "api_key_changed",
    subjectOf: ({ id }) => id,
  });
  const used = new Set<string>();

  /** The checksum spares the database a look for what was never a key; a key that is cached is one. */
  const standingOf = async (key: string, key_hash: Buffer): Promise<KeyStanding> => {
    const load = async () => (isApiKey(key) ? store.keyByHash(key_hash) : undefined);
    const standing = await standings.get(key_hash.toString("base64"), load);
    if (standing === undefined) throw errors.invalidApiKey();
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
      await standings.close();
    },
  };
}
