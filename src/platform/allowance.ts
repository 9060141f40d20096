import { monotonicMs } from "./clock.ts";

/** Those whose allowance is full again are forgotten once this many are kept. */
const MAX_KEPT = 10_000;

interface Taken {
  /** What is left, not below 0. */
  left: number;
  full_in_s: number;
  /** null: granted. Else refused, which used nothing up; then it is worth asking again. */
  retry_after_s: number | null;
}

/** A token bucket for each key, on this node and on real time: bursts up to `size`, refilled evenly over `refill_s`. */
export function createAllowances({ size, refill_s }: { size: number; refill_s: number }) {
  const kept = new Map<string, { tokens: number; at_ms: number }>();
  const per_s = size / refill_s;

  const forgetFull = (now: number) => {
    for (const [key, { tokens, at_ms }] of kept) {
      if (tokens + ((now - at_ms) / 1000) * per_s >= size) kept.delete(key);
    }
  };

  return {
    take(key: string): Taken {
      const now = monotonicMs();
      const allowance = kept.get(key) ?? { tokens: size, at_ms: now };
      const tokens = Math.min(size, allowance.tokens + ((now - allowance.at_ms) / 1000) * per_s);
      const granted = tokens >= 1;
      if (kept.size >= MAX_KEPT && !kept.has(key)) forgetFull(now);
      kept.set(key, { tokens: granted ? tokens - 1 : tokens, at_ms: now });
      const left = granted ? tokens - 1 : 0;
      return { left, full_in_s: (size - left) / per_s, retry_after_s: granted ? null : (1 - tokens) / per_s };
    },
  };
}
