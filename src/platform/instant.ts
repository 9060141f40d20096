import type { Instant } from "./db.ts";

/** Apart from the clock, because the console computes next runs too, in a browser. */

/** Converts a Temporal.Instant, a Date or epoch milliseconds to an Instant. */
export function instantOf(value: Temporal.Instant | Date | number): Instant {
  const ms = typeof value === "number" ? value : value instanceof Date ? value.getTime() : value.epochMilliseconds;
  return new Date(ms).toISOString();
}
