import type { Instant } from "../platform/db.ts";

/**
 * The part of `amount` (tokens or cents, whole) that falls on the rest of a period from `at` on, rounded down to a whole
 * one: all of it at the period's start, nothing from its end on.
 */
export function prorated(amount: number, period: { start: Instant; end: Instant; at: Instant }): number {
  const [start, end, at] = [Date.parse(period.start), Date.parse(period.end), Date.parse(period.at)];
  const left_ms = Math.min(Math.max(end - at, 0), end - start);
  return Number((BigInt(amount) * BigInt(left_ms)) / BigInt(end - start));
}
