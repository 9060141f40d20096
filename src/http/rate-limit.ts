import type { Context, MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { createTokenBuckets } from "../platform/token-bucket.ts";

/** The headers of an answer, and when to retry; null when the request is within its limit. */
export interface Limited {
  headers: Readonly<Record<string, string>>;
  retry_after_s: number | null;
}

/**
 * A token bucket per caller on this node: bursts up to `perMinute()`, refilled evenly. A new limit begins with full
 * buckets.
 */
export function createRateLimit(perMinute: () => number): (caller: string) => Limited {
  let per_minute = perMinute();
  let buckets = createTokenBuckets({ size: per_minute, refill_s: 60 });
  return (caller) => {
    if (perMinute() !== per_minute) {
      per_minute = perMinute();
      buckets = createTokenBuckets({ size: per_minute, refill_s: 60 });
    }
    const { left, full_in_s, retry_after_s } = buckets.take(caller);
    const [limit, remaining, reset] = [String(per_minute), String(Math.floor(left)), String(Math.ceil(full_in_s))];
    const headers = {
      "RateLimit-Limit": limit,
      "RateLimit-Remaining": remaining,
      "RateLimit-Reset": reset,
      // OpenAI's names and format, which its clients read.
      "X-RateLimit-Limit-Requests": limit,
      "X-RateLimit-Remaining-Requests": remaining,
      "X-RateLimit-Reset-Requests": `${reset}s`,
    };
    return { headers, retry_after_s };
  };
}

/** Answers 429 over the limit. `whoOf` returns the caller. */
export function rateLimit(
  take: (caller: string) => Limited,
  whoOf: (c: Context<HttpEnv>) => string,
): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const { headers, retry_after_s } = take(whoOf(c));
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
    await next();
    // A stream's Response is not made by Hono, so it lacks the headers that were set before.
    if (c.res.headers.has("RateLimit-Limit")) return;
    for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
  };
}
