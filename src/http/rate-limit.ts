import type { MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { monotonicMs } from "../platform/clock.ts";

/** Users whose allowance is full again are forgotten once this many are kept. */
const MAX_KEPT = 10_000;

interface Allowance {
  tokens: number;
  at_ms: number;
}

/** A token bucket for each user on this node: bursts up to `per_minute`, refilled evenly. */
export function rateLimit(per_minute: number): MiddlewareHandler<HttpEnv> {
  const kept = new Map<string, Allowance>();
  const per_ms = per_minute / 60_000;

  const take = (user_id: string): number => {
    const now = monotonicMs();
    const allowance = kept.get(user_id) ?? { tokens: per_minute, at_ms: now };
    allowance.tokens = Math.min(per_minute, allowance.tokens + (now - allowance.at_ms) * per_ms) - 1;
    allowance.at_ms = now;
    if (kept.size >= MAX_KEPT && !kept.has(user_id)) forgetFull(kept, now, per_ms, per_minute);
    kept.set(user_id, allowance);
    return allowance.tokens;
  };

  return async (c, next) => {
    const left = take(c.get("caller").user_id);
    c.header("RateLimit-Limit", String(per_minute));
    c.header("RateLimit-Remaining", String(Math.max(0, Math.floor(left))));
    c.header("RateLimit-Reset", String(Math.ceil((per_minute - Math.max(0, left)) / per_ms / 1000)));
    if (left < 0) {
      const allowance = kept.get(c.get("caller").user_id);
      if (allowance !== undefined) allowance.tokens += 1; // a refused request uses nothing up
      throw errors.rateLimited(-left / per_ms / 1000);
    }
    await next();
  };
}

function forgetFull(kept: Map<string, Allowance>, now: number, per_ms: number, per_minute: number): void {
  for (const [user_id, allowance] of kept) {
    if (allowance.tokens + (now - allowance.at_ms) * per_ms >= per_minute) kept.delete(user_id);
  }
}
