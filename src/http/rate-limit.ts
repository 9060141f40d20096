import type { Context, MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { createTokenBuckets } from "../platform/token-bucket.ts";

/**
 * A token bucket per caller on this node: bursts up to `perMinute()`, refilled evenly. A new limit begins with full
 * buckets. `whoOf` returns the caller.
 */
export function rateLimit(perMinute: () => number, whoOf: (c: Context<HttpEnv>) => string): MiddlewareHandler<HttpEnv> {
  let per_minute = perMinute();
  let buckets = createTokenBuckets({ size: per_minute, refill_s: 60 });
  return async (c, next) => {
    if (perMinute() !== per_minute) {
      per_minute = perMinute();
      buckets = createTokenBuckets({ size: per_minute, refill_s: 60 });
    }
    const { left, full_in_s, retry_after_s } = buckets.take(whoOf(c));
    c.header("RateLimit-Limit", String(per_minute));
    c.header("RateLimit-Remaining", String(Math.floor(left)));
    c.header("RateLimit-Reset", String(Math.ceil(full_in_s)));
    // OpenAI's names and format, which its clients read.
    c.header("X-RateLimit-Limit-Requests", String(per_minute));
    c.header("X-RateLimit-Remaining-Requests", String(Math.floor(left)));
    c.header("X-RateLimit-Reset-Requests", `${Math.ceil(full_in_s)}s`);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
    await next();
  };
}
