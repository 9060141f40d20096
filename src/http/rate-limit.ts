import type { Context, MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { createAllowances } from "../platform/allowance.ts";

/**
 * A token bucket per caller on this node: bursts up to `perMinute()`, refilled evenly. A new limit begins with full
 * buckets. `whoOf` returns the caller.
 */
export function rateLimit(perMinute: () => number, whoOf: (c: Context<HttpEnv>) => string): MiddlewareHandler<HttpEnv> {
  let per_minute = perMinute();
  let allowances = createAllowances({ size: per_minute, refill_s: 60 });
  return async (c, next) => {
    if (perMinute() !== per_minute) {
      per_minute = perMinute();
      allowances = createAllowances({ size: per_minute, refill_s: 60 });
    }
    const { left, full_in_s, retry_after_s } = allowances.take(whoOf(c));
    c.header("RateLimit-Limit", String(per_minute));
    c.header("RateLimit-Remaining", String(Math.floor(left)));
    c.header("RateLimit-Reset", String(Math.ceil(full_in_s)));
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
    await next();
  };
}
