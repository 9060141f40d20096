import { monotonicMs } from "./clock.ts";

/** Those whose allowance is full again are forgotten once this many are kept; beyond the second number all are. */
const MAX_KEPT = 10_000;
const MOST_KEPT = 100_000;
/** Looked at for each new key, so that many keys cost each request no more. */
const LOOKED_AT = 2;

interface Taken {
  /** What is left, not below 0. */
  left: number;
  full_in_s: number;
  /** null: granted. Else refused, which used nothing up; then it is worth asking again. */
  retry_after_s: number | null;
}

/** A token bucket for each key, on this node and on real time: bursts up to `size`, refilled evenly over `refill_s`. */
export function createAllowances({ size, refill_s }: { size: number; refill_s: number }) {
  // The key that was used longest ago is the first.
  const kept = new Map<string, { tokens: number; at_ms: number }>();
  const per_s = size / refill_s;

  const forgetOldest = (now: number) => {
    for (const [key, { tokens, at_ms }] of kept.entries().take(LOOKED_AT)) {
      const is_full = tokens + ((now - at_ms) / 1000) * per_s >= size;
      if (is_full || kept.size >= MOST_KEPT) kept.delete(key);
    }
  };

  return {
    take(key: string): Taken {
      const now = monotonicMs();
      const allowance = kept.get(key) ?? { tokens: size, at_ms: now };
      const tokens = Math.min(size, allowance.tokens + ((now - allowance.at_ms) / 1000) * per_s);
      const granted = tokens >= 1;
      if (!kept.delete(key) && kept.size >= MAX_KEPT) forgetOldest(now);
      kept.set(key, { tokens: granted ? tokens - 1 : tokens, at_ms: now });
      const left = granted ? tokens - 1 : 0;
      return { left, full_in_s: (size - left) / per_s, retry_after_s: granted ? null : (1 - tokens) / per_s };
    },
  };
}
