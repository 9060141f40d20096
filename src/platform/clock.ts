import type { Instant } from "./db.ts";

/** The domain's time: trials, expiries, schedules, created_at. Leases, time-outs and rate limits use `monotonicMs`. */
export interface Clock {
  now(): Instant;
}

/** Instant of a Temporal.Instant, a Date or epoch milliseconds. */
export function instantOf(value: Temporal.Instant | Date | number): Instant {
  const ms = typeof value === "number" ? value : value instanceof Date ? value.getTime() : value.epochMilliseconds;
  return new Date(ms).toISOString();
}

/** `instant` moved by whole seconds, back when negative. */
export function addSeconds(instant: Instant, seconds: number): Instant {
  return instantOf(Date.parse(instant) + seconds * 1000);
}

/** `instant` moved by 24-hour days. */
export function addDays(instant: Instant, days: number): Instant {
  return addSeconds(instant, days * 86_400);
}

/** `instant` moved by calendar months in UTC, the day clamped to the month's end (31 January + 1 = 28 February). */
export function addMonths(instant: Instant, months: number): Instant {
  const moved = Temporal.Instant.from(instant).toZonedDateTimeISO("UTC").add({ months });
  return instantOf(moved.toInstant());
}

/** Milliseconds of the machine's real clock: for leases and signatures, never for the domain. */
export function realNowMs(): number {
  return Date.now();
}

/** Milliseconds that only go forward: for time-outs and durations. */
export function monotonicMs(): number {
  return performance.now();
}

/** The machine's clock as the domain's. */
export function createSystemClock(): Clock {
  // It is asked several times in a millisecond.
  let last = { ms: 0, text: instantOf(0) };
  return {
    now: () => {
      const ms = Date.now();
      if (ms !== last.ms) last = { ms, text: instantOf(ms) };
      return last.text;
    },
  };
}
