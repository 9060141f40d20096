/** Seconds from each failed try of a delivery to the next; the last stands for all that follow. */
const DELAYS_S = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800] as const;
/** contract 5: retried for a day. */
const RETRY_FOR_S = 86_400;

/** What one try came to: an HTTP status, or, when there was none, why. */
export interface TryResult {
  readonly status: number | null;
  readonly error: string | null;
}

/** What becomes of a delivery after a try. `gone`: the receiver wants no more of any kind (410). */
export type Verdict = { outcome: "delivered" | "failed" | "gone" } | { outcome: "retry"; delay_s: number };

/** Judges the `attempt`th try (from 1) of a delivery queued `age_s` seconds ago. Only 2xx is success; a redirect is not. */
export function verdictOf({ status }: TryResult, { attempt, age_s }: { attempt: number; age_s: number }): Verdict {
  if (status !== null && status >= 200 && status < 300) return { outcome: "delivered" };
  if (status === 410) return { outcome: "gone" };
  const delay_s = DELAYS_S[Math.min(attempt, DELAYS_S.length) - 1] ?? 0;
  return age_s + delay_s <= RETRY_FOR_S ? { outcome: "retry", delay_s } : { outcome: "failed" };
}
