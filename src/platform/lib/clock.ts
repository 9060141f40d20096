import { uptime } from "node:os";
import { type Instant, instantOf } from "./instant.ts";

/** The domain's time: trials, expiries, schedules, created_at. Leases, timeouts and rate limits use `monotonicMs`. */
export interface Clock {
  now(): Instant;
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

/** The first instant of the UTC day of `instant`. */
export function startOfDay(instant: Instant): Instant {
  return `${instant.slice(0, 10)}T00:00:00.000Z`;
}

/** The first instant of the UTC month of `instant`. */
export function startOfMonth(instant: Instant): Instant {
  return `${instant.slice(0, 7)}-01T00:00:00.000Z`;
}

/** Milliseconds of the machine's real clock: for signatures, never for the domain. */
export function realNowMs(): number {
  return Date.now();
}

/** Milliseconds of a clock that only moves forward: for timeouts and durations. */
export function monotonicMs(): number {
  return performance.now();
}

/** contract 1.10: a larger step of the machine's clock is not followed. */
export const MAX_STEP_MS = 60_000;
/** After so much time without a question, or a step back, the machine's clock is compared with its uptime. */
const COMPARE_MS = 1_000;

/**
 * The machine's time without steps of its clock, such as 40 days ahead: after a step of more than `MAX_STEP_MS`, time goes
 * on from before. `uptimeMs` also counts while the machine sleeps, and nothing sets it.
 */
export function createSteadyTime({ wallMs, uptimeMs }: { wallMs(): number; uptimeMs(): number }) {
  let compared = { wall_ms: wallMs(), uptime_ms: uptimeMs() };
  let seen_ms = compared.wall_ms;
  /** By how much the machine's clock is ahead of this time. */
  let ahead_ms = 0;

  function compare(wall_ms: number): void {
    const uptime_ms = uptimeMs();
    const step_ms = Math.round(wall_ms - compared.wall_ms - (uptime_ms - compared.uptime_ms));
    compared = { wall_ms, uptime_ms };
    if (Math.abs(step_ms) > MAX_STEP_MS) ahead_ms += step_ms;
    if (Math.abs(ahead_ms) <= MAX_STEP_MS) ahead_ms = 0;
  }

  function nowMs(): number {
    const wall_ms = wallMs();
    if (wall_ms < seen_ms || wall_ms - seen_ms >= COMPARE_MS) compare(wall_ms);
    seen_ms = wall_ms;
    return wall_ms - ahead_ms;
  }

  return {
    nowMs,
    wallMs,
    /** Follows the machine's clock again, `ahead_ms` behind it: another clock has confirmed that. */
    follow(ahead: number): void {
      if (ahead === ahead_ms) return;
      compared = { wall_ms: wallMs(), uptime_ms: uptimeMs() };
      seen_ms = compared.wall_ms;
      ahead_ms = ahead;
    },
  };
}

export type SteadyTime = ReturnType<typeof createSteadyTime>;

/** The time of this process. */
export const machine_time = createSteadyTime({ wallMs: () => Date.now(), uptimeMs: () => uptime() * 1_000 });

/** A domain clock that shows the machine's time, without steps of its clock. */
export function createSystemClock(): Clock {
  // Callers ask several times per millisecond, so the text is cached.
  let last = { ms: 0, text: instantOf(0) };
  return {
    now: () => {
      const ms = machine_time.nowMs();
      if (ms !== last.ms) last = { ms, text: instantOf(ms) };
      return last.text;
    },
  };
}
