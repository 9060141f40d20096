import type { Instant } from "./db.ts";

/** The domain's time: trials, expiries, schedules, created_at. Leases, timeouts and rate limits use `monotonicMs`. */
export interface Clock {
  now(): Instant;
}

/** Converts a Temporal.Instant, a Date or epoch milliseconds to an Instant. */
export function instantOf(value: Temporal.Instant | Date | number): Instant {
  const ms = typeof value === "number" ? value : value instanceof Date ? value.getTime() : value.epochMilliseconds;
  return new Date(ms).toISOString();
}

/** Moves `instant` by whole seconds; a negative number moves it back. */
export function addSeconds(instant: Instant, seconds: number): Instant {
  return instantOf(Date.parse(instant) + seconds * 1000);
}

/** Moves `instant` by 24-hour days. */
export function addDays(instant: Instant, days: number): Instant {
  return addSeconds(instant, days * 86_400);
}

/** Moves `instant` by calendar months in UTC. The day is clamped to the month's end (31 January + 1 = 28 February). */
export function addMonths(instant: Instant, months: number): Instant {
  const moved = Temporal.Instant.from(instant).toZonedDateTimeISO("UTC").add({ months });
  return instantOf(moved.toInstant());
}

/** The first instant of the UTC month of `instant`. */
export function startOfMonth(instant: Instant): Instant {
  return `${instant.slice(0, 7)}-01T00:00:00.000Z`;
}

/** Milliseconds of the machine's real clock: for leases and signatures, never for the domain. */
export function realNowMs(): number {
  return Date.now();
}

/** Milliseconds of a clock that only moves forward: for timeouts and durations. */
export function monotonicMs(): number {
  return performance.now();
}

/** A domain clock that shows the machine's time. */
export function createSystemClock(): Clock {
  // Callers ask several times per millisecond, so the text is cached.
  let last = { ms: 0, text: instantOf(0) };
  return {
    now: () => {
      const ms = Date.now();
      if (ms !== last.ms) last = { ms, text: instantOf(ms) };
      return last.text;
    },
  };
}
