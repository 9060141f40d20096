import { LRUCache } from "lru-cache";
import type { Db } from "./db.ts";

/** Cache TTL. A notification of a change evicts the row earlier. */
const CACHE_MS = 30_000;
const CACHE_MAX = 10_000;

/**
 * Caches rows that are read on every request. A trigger notifies every node when a subject changes; while notifications
 * cannot be received, the cache is not used.
 */
export async function createNotifiedCache<Value extends object>(deps: {
  db: Db;
  channel: string;
  /** The subject of a row, as notifications name it. */
  subjectOf(value: Value): string;
}) {
  const { db, channel, subjectOf } = deps;
  const cache = new LRUCache<string, Value>({ max: CACHE_MAX, ttl: CACHE_MS });
  /** Counts notifications and losses. If one comes while a row is loaded, the row may be stale and is not cached. */
  let changes = 0;

  const forget = (isStale: (value: Value) => boolean) => {
    changes += 1;
    for (const [key, value] of cache.entries()) if (isStale(value)) cache.delete(key);
  };
  const forgetAll = () => {
    changes += 1;
    cache.clear();
  };
  const stopListening = await db.listen(
    channel,
    (subject) => forget((value) => subjectOf(value) === subject),
    forgetAll,
  );

  return {
    /** The value under `key`, from the cache or from `load`. A missing value is not cached. */
    async get(key: string, load: () => Promise<Value | undefined>): Promise<Value | undefined> {
      const cached = cache.get(key);
      if (cached !== undefined && db.isListening()) return cached;
      const changes_before = changes;
      const value = await load();
      if (value === undefined || changes !== changes_before || !db.isListening()) return value;
      cache.set(key, value);
      return value;
    },
    /** Drops values on this node after a change of its own: its next request does not wait for the notification. */
    forget,
    close: stopListening,
  };
}
