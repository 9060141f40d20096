import { monotonicMs } from "./clock.ts";

/** From this many buckets on, full buckets are evicted. */
const EVICT_FULL_FROM = 10_000;
/** From this many on, buckets are evicted even if they are not full. */
const EVICT_ANY_FROM = 100_000;
/** Buckets checked for eviction per new key. The limit keeps the cost of a request constant. */
const LOOKED_AT = 2;

interface Taken {
  /** Remaining tokens, never below 0. */
  left: number;
  full_in_s: number;
  /** Seconds until a retry can succeed; null when granted. A rejected call takes no token. */
  retry_after_s: number | null;
}

/**
 * A token bucket per key, on this node only and in real time. Allows bursts up to `size`, and refills evenly over
 * `refill_s`.
 */
export function createTokenBuckets({ size, refill_s }: { size: number; refill_s: number }) {
  // In order of last use, the least recently used key first.
  const kept = new Map<string, { tokens: number; at_ms: number }>();
  const per_s = size / refill_s;

  const forgetOldest = (now: number) => {
    for (const [key, { tokens, at_ms }] of kept.entries().take(LOOKED_AT)) {
      const is_full = tokens + ((now - at_ms) / 1000) * per_s >= size;
      if (is_full || kept.size >= EVICT_ANY_FROM) kept.delete(key);
    }
  };

  return {
    take(key: string): Taken {
      const now = monotonicMs();
      const bucket = kept.get(key) ?? { tokens: size, at_ms: now };
      const tokens = Math.min(size, bucket.tokens + ((now - bucket.at_ms) / 1000) * per_s);
      const granted = tokens >= 1;
      if (!kept.delete(key) && kept.size >= EVICT_FULL_FROM) forgetOldest(now);
      kept.set(key, { tokens: granted ? tokens - 1 : tokens, at_ms: now });
      const left = granted ? tokens - 1 : 0;
      return { left, full_in_s: (size - left) / per_s, retry_after_s: granted ? null : (1 - tokens) / per_s };
    },
  };
}
