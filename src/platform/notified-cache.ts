import { monotonicMs } from "./clock.ts";
import type { Db } from "./db.ts";

/** design 6: what was read is believed this long, unless a notification says that it changed. */
const CACHE_MS = 30_000;
const CACHE_MAX = 10_000;

/**
 * Rows that are read on every request. A trigger notifies every node of the subject that changed, and while
 * notifications cannot be heard nothing is served from the cache.
 */
export async function createNotifiedCache<Value>(deps: {
  db: Db;
  channel: string;
  /** What a notification names. */
  subjectOf(value: Value): string;
}) {
  const { db, channel, subjectOf } = deps;
  const cache = new Map<string, { value: Value; until_ms: number }>();
  /** Counts what was heard: a row that was read before a change was heard of may show what was before it. */
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
    /** The value under `key`, from the cache or from `load`; what is not there is not kept. */
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
