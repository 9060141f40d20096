import type { Context, MiddlewareHandler } from "hono";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { createTokenBuckets } from "../platform/token-bucket.ts";

/** Counts a request. `tightest`: the limit with the fewest requests left; null: there is none. */
export type AdmitRequest = (caller: Caller) => Promise<{
  caller: Caller;
  tightest: { limit: number; left: number; frees_in_s: number; granted: boolean } | null;
}>;

function showLimit(c: Context<HttpEnv>, of: { limit: number; left: number; resets_in_s: number }): void {
  const left = String(Math.floor(of.left));
  c.header("RateLimit-Limit", String(of.limit));
  c.header("RateLimit-Remaining", left);
  c.header("RateLimit-Reset", String(Math.ceil(of.resets_in_s)));
  // OpenAI's names and format, which its clients read.
  c.header("X-RateLimit-Limit-Requests", String(of.limit));
  c.header("X-RateLimit-Remaining-Requests", left);
  c.header("X-RateLimit-Reset-Requests", `${Math.ceil(of.resets_in_s)}s`);
}

/** The limits of the caller's key, user and plan, over all nodes. `admit` returns the caller with its allowed models. */
export function callerLimits(admit: AdmitRequest): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const { caller, tightest } = await admit(c.get("caller"));
    c.set("caller", caller);
    if (tightest !== null) {
      showLimit(c, { ...tightest, resets_in_s: tightest.frees_in_s });
      if (!tightest.granted) throw errors.rateLimited(tightest.frees_in_s);
    }
    await next();
  };
}

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
    showLimit(c, { limit: per_minute, left, resets_in_s: full_in_s });
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
    await next();
  };
}
