import fc from "fast-check";
import { expect, test } from "vitest";
import { next, type ScheduleSpec } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { ZONE_LINKS } from "./zone-links.ts";

/** The tested periods for each zone and interval. With PROPERTY_RUNS=500 they cover nearly every clock change of every zone. */
const RUNS = Number(process.env.PROPERTY_RUNS ?? 5);
/** A failure prints the seed for PROPERTY_SEED. */
const SEED = Number(process.env.PROPERTY_SEED ?? 20_261_120);
const DAY_MS = 86_400_000;
const YEAR_1970 = Date.UTC(1970, 0, 1);
const YEAR_2100 = Date.UTC(2100, 0, 1);

const ZONES = [...Intl.supportedValuesOf("timeZone"), ...ZONE_LINKS];
const time = fc
  .tuple(fc.nat(23), fc.nat(59))
  .map(([hour, minute]) => `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`);
/** Schedules of each interval, and the number of days per test. */
const INTERVALS = {
  daily: { days: 5, schedule: (timezone: string) => fc.record({ ...of("daily", timezone) }) },
  weekly: {
    days: 30,
    schedule: (timezone: string) => fc.record({ ...of("weekly", timezone), day_of_week: fc.constantFrom(...WEEKDAYS) }),
  },
  monthly: {
    days: 100,
    schedule: (timezone: string) =>
      fc.record({
        ...of("monthly", timezone),
        day_of_month: fc.oneof(fc.constant("last" as const), fc.integer({ min: 1, max: 31 })),
      }),
  },
};
function of<Interval extends ScheduleSpec["interval"]>(interval: Interval, timezone: string) {
  return { interval: fc.constant(interval), time, timezone: fc.constant(timezone) };
}

/** The zone's offset in milliseconds at an instant. The oracle below uses no other data of zones. */
function offsetAt(timezone: string, at_ms: number): number {
  return Temporal.Instant.fromEpochMilliseconds(at_ms).toZonedDateTimeISO(timezone).offsetNanoseconds / 1e6;
}

/** The instant at which the wall clock shows `wall_ms` (as if UTC): the first one, or in a gap by the offset before it. */
function instantOfWall(timezone: string, wall_ms: number): number {
  const offsets = [wall_ms - 1.5 * DAY_MS, wall_ms + 1.5 * DAY_MS].map((at) => offsetAt(timezone, at));
  const shown = offsets.map((offset) => wall_ms - offset).filter((at) => at + offsetAt(timezone, at) === wall_ms);
  return shown.length > 0 ? Math.min(...shown) : wall_ms - (offsets[0] ?? 0);
}

function isDue(schedule: ScheduleSpec, date: Date): boolean {
  if (schedule.interval === "daily") return true;
  if (schedule.interval === "weekly") return WEEKDAYS[(date.getUTCDay() + 6) % 7] === schedule.day_of_week;
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  const day = schedule.day_of_month === "last" ? last : Math.min(schedule.day_of_month, last);
  return date.getUTCDate() === day;
}

/** Every run in (from, until], day by day, without Temporal's calendar. */
function runsByBruteForce(schedule: ScheduleSpec, from: number, until: number): number[] {
  const [hour = 0, minute = 0] = schedule.time.split(":").map(Number);
  const first_day = Math.floor(from / DAY_MS) * DAY_MS - 3 * DAY_MS;
  const runs = new Set<number>();
  for (let day = first_day; day <= until + 3 * DAY_MS; day += DAY_MS) {
    if (!isDue(schedule, new Date(day))) continue;
    const at = instantOfWall(schedule.timezone, day + hour * 3_600_000 + minute * 60_000);
    if (at > from && at <= until) runs.add(at);
  }
  return [...runs].sort((a, b) => a - b);
}

function runsOf(schedule: ScheduleSpec, from: number, until: number): number[] {
  const runs: number[] = [];
  let at = from;
  for (;;) {
    const due = Date.parse(next(schedule, new Date(at).toISOString()));
    expect(due).toBeGreaterThan(at);
    if (due > until) return runs;
    runs.push(due);
    at = due;
  }
}

/** An instant within two days of the zone's first clock change after `near`, or `near` without a change. */
function nearTransition(timezone: string, near: number, shift_ms: number): number {
  const transition = Temporal.Instant.fromEpochMilliseconds(near)
    .toZonedDateTimeISO(timezone)
    .getTimeZoneTransition("next");
  return transition === null ? near : Math.floor(transition.epochMilliseconds) + shift_ms;
}

test.each(Object.keys(INTERVALS) as (keyof typeof INTERVALS)[])(
  "%s, in every zone, 1970 to 2100: the runs are strictly increasing and equal to a day-by-day count",
  (interval) => {
    const { days, schedule } = INTERVALS[interval];
    const era = fc.integer({ min: YEAR_1970, max: YEAR_2100 });
    const shift = fc.integer({ min: -2 * DAY_MS, max: 2 * DAY_MS });
    for (const timezone of ZONES) {
      const near = fc.tuple(era, shift, fc.nat(3)).map(([at, shift_ms, plain]) =>
        // Three of four periods are near a change of the zone's clocks.
        plain === 0 ? at : nearTransition(timezone, at, shift_ms),
      );
      fc.assert(
        fc.property(schedule(timezone), near, (spec, from) => {
          const until = from + days * DAY_MS;
          expect(runsOf(spec, from, until)).toEqual(runsByBruteForce(spec, from, until));
        }),
        { numRuns: RUNS, seed: SEED },
      );
    }
  },
);

test("in every zone the next change of its clocks neither skips nor doubles a daily run", () => {
  for (const timezone of ZONES) {
    const from = nearTransition(timezone, Date.UTC(2026, 0, 1), -2 * DAY_MS);
    for (const wall of ["00:00", "00:30", "01:30", "02:30", "03:00", "23:59"]) {
      const schedule: ScheduleSpec = { interval: "daily", time: wall, timezone };
      expect(runsOf(schedule, from, from + 4 * DAY_MS), timezone).toEqual(
        runsByBruteForce(schedule, from, from + 4 * DAY_MS),
      );
    }
  }
});
