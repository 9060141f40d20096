import { monotonicMs } from "./clock.ts";
import type { Db } from "./db.ts";

/** Cache TTL (design 6). A notification of a change evicts the row earlier. */
const CACHE_MS = 30_000;
const CACHE_MAX = 10_000;

/**
 * Caches rows that are read on every request. A trigger notifies every node when a subject changes; while notifications
 * cannot be received, the cache is not used.
 */
export async function createNotifiedCache<Value>(deps: {
  db: Db;
  channel: string;
  /** The subject of a row, as notifications name it. */
  subjectOf(value: Value): string;
}) {
  const { db, channel, subjectOf } = deps;
  const cache = new Map<string, { value: Value; until_ms: number }>();
  /** Counts notifications and losses. If one comes while a row is loaded, the row may be stale and is not cached. */
  let changes = 0;

  const forget = (subject: string) => {
    changes += 1;
    for (const [key, { value }] of cache) if (subjectOf(value) === subject) cache.delete(key);
  };
  const forgetAll = () => {
    changes += 1;
    cache.clear();
  };
  const stopListening = await db.listen(channel, forget, forgetAll);

  return {
    /** The value under `key`, from the cache or from `load`. A missing value is not cached. */
    async get(key: string, load: () => Promise<Value | undefined>): Promise<Value | undefined> {
      const cached = cache.get(key);
      if (cached !== undefined && cached.until_ms > monotonicMs() && db.isListening()) return cached.value;
      const changes_before = changes;
      const value = await load();
      if (value === undefined || changes !== changes_before || !db.isListening()) return value;
      if (cache.size >= CACHE_MAX) cache.clear();
      cache.set(key, { value, until_ms: monotonicMs() + CACHE_MS });
      return value;
    },
    close: stopListening,
  };
}
