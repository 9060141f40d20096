import { backoff } from "../platform/retry.ts";

/** Seconds from each failed try to the next: from 5 s to 8 h. The last value repeats. */
const DELAYS_S = backoff({ first: 5, max: 28_800, retries: 8 });
/** contract 5: retried for a day. */
const RETRY_FOR_S = 86_400;

/** The result of one try: an HTTP status, or the error when there is none. */
export interface TryResult {
  readonly status: number | null;
  readonly error: string | null;
}

/** The next state of a delivery. `gone`: the receiver wants no more deliveries (410). */
export type Verdict = { outcome: "delivered" | "failed" | "gone" } | { outcome: "retry"; delay_s: number };

/**
 * Decides after try number `attempt` (from 1) of a delivery queued `age_s` seconds ago. Only 2xx is success; a redirect
 * is a failure.
 */
export function verdictOf({ status }: TryResult, { attempt, age_s }: { attempt: number; age_s: number }): Verdict {
  if (status !== null && status >= 200 && status < 300) return { outcome: "delivered" };
  if (status === 410) return { outcome: "gone" };
  const delay_s = DELAYS_S[Math.min(attempt, DELAYS_S.length) - 1] ?? 0;
  return age_s + delay_s <= RETRY_FOR_S ? { outcome: "retry", delay_s } : { outcome: "failed" };
}
