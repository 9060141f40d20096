import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Caller } from "../contract/caller.ts";

/** The headers of an answer, and when to retry; null when the request is within its limit. */
export interface Limited {
  headers: Readonly<Record<string, string>>;
  retry_after_s: number | null;
}

/** Counts a request. `tightest`: the limit with the fewest requests left; null: there is none. */
export type AdmitRequest = (caller: Caller) => Promise<{
  caller: Caller;
  tightest: { limit: number; left: number; frees_in_s: number; granted: boolean } | null;
}>;

interface Quota {
  /** What is counted per minute. */
  of: "requests" | "tokens";
  limit: number;
  left: number;
  resets_in_s: number;
}

/**
 * The headers of a limit per minute: draft-ietf-httpapi-ratelimit-headers (`RateLimit` and `RateLimit-Policy` of its
 * revisions since 08, the three others of those before), whose earlier names clients still read.
 */
export function quotaHeaders({ of, limit, left, resets_in_s }: Quota): Record<string, string> {
  const [remaining, reset] = [Math.floor(left), Math.ceil(resets_in_s)];
  return {
    "RateLimit-Policy": `"${of}";q=${limit};w=60`,
    RateLimit: `"${of}";r=${remaining};t=${reset}`,
    "RateLimit-Limit": String(limit),
    "RateLimit-Remaining": String(remaining),
    "RateLimit-Reset": String(reset),
  };
}

function limitHeaders(quota: Omit<Quota, "of">): Limited["headers"] {
  const headers = quotaHeaders({ of: "requests", ...quota });
  return {
    ...headers,
    // OpenAI's names and format, which its clients read.
    "X-RateLimit-Limit-Requests": String(quota.limit),
    "X-RateLimit-Remaining-Requests": headers["RateLimit-Remaining"] ?? "",
    "X-RateLimit-Reset-Requests": `${headers["RateLimit-Reset"]}s`,
  };
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
    return { headers: limitHeaders({ limit: per_minute, left, resets_in_s: full_in_s }), retry_after_s };
  };
}

/** The limits of the caller's key, user and plan, over all nodes. The returned caller has its allowed models. */
async function admitted(caller: Caller, admit: AdmitRequest): Promise<{ caller: Caller; limited: Limited | null }> {
  const { caller: with_models, tightest } = await admit(caller);
  if (tightest === null) return { caller: with_models, limited: null };
  const { granted, frees_in_s } = tightest;
  const headers = limitHeaders({ ...tightest, resets_in_s: frees_in_s });
  return { caller: with_models, limited: { headers, retry_after_s: granted ? null : frees_in_s } };
}

/** Every limit of a request with a key: the node's own, then those over all nodes. */
export async function limitCaller(
  caller: Caller,
  take: (user_id: string) => Limited,
  admit: AdmitRequest,
): Promise<{ caller: Caller; limited: Limited }> {
  const of_node = take(caller.user_id);
  if (of_node.retry_after_s !== null) return { caller, limited: of_node };
  const { caller: with_models, limited } = await admitted(caller, admit);
  return { caller: with_models, limited: limited ?? of_node };
}
