import { addMonths } from "../platform/clock.ts";
import type { Instant } from "../platform/db.ts";

/**
 * The `number`th monthly period of a subscription, starting with 1. It is counted from the anchor, so a subscription
 * that begins on 31 January renews on 28 February and then on 31 March.
 */
export function periodOf(anchor: Instant, number: number): { start: Instant; end: Instant } {
  return { start: addMonths(anchor, number - 1), end: addMonths(anchor, number) };
}

/**
 * The share of `amount` (whole tokens or cents) for the rest of a period after `at`, rounded down. It is the full
 * amount at the start of the period and 0 from its end.
 */
export function prorated(amount: number, period: { start: Instant; end: Instant; at: Instant }): number {
  const [start, end, at] = [Date.parse(period.start), Date.parse(period.end), Date.parse(period.at)];
  const left_ms = Math.min(Math.max(end - at, 0), end - start);
  return Number((BigInt(amount) * BigInt(left_ms)) / BigInt(end - start));
}
