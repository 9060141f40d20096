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

function limitHeaders(of: { limit: number; left: number; resets_in_s: number }): Limited["headers"] {
  const [limit, remaining, reset] = [of.limit, Math.floor(of.left), Math.ceil(of.resets_in_s)].map(String) as [
    string,
    string,
    string,
  ];
  return {
    "RateLimit-Limit": limit,
    "RateLimit-Remaining": remaining,
    "RateLimit-Reset": reset,
    // OpenAI's names and format, which its clients read.
    "X-RateLimit-Limit-Requests": limit,
    "X-RateLimit-Remaining-Requests": remaining,
    "X-RateLimit-Reset-Requests": `${reset}s`,
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
