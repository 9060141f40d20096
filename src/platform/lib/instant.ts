/** Apart from the clock, because the console computes next runs too, in a browser. */

/** An instant of the domain: ISO 8601, UTC, always three decimals and `Z`, so that text order is time order. */
export type Instant = string;

/** Converts a Temporal.Instant, a Date or epoch milliseconds to an Instant. */
export function instantOf(value: Temporal.Instant | Date | number): Instant {
  const ms = typeof value === "number" ? value : value instanceof Date ? value.getTime() : value.epochMilliseconds;
  return new Date(ms).toISOString();
}
