import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ScheduleSpec } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { countDays, DAY_MS, type Meaning, meaningOf, runsOf, ZONES } from "./day-count.ts";

/** The tested periods for each zone and interval. With PROPERTY_RUNS=500 they cover nearly every clock change of every zone. */
const RUNS = Number(process.env.PROPERTY_RUNS ?? 2);
/** A failure prints the seed for PROPERTY_SEED. */
const SEED = Number(process.env.PROPERTY_SEED ?? 20_261_120);
const YEAR_1970 = Date.UTC(1970, 0, 1);
const YEAR_2100 = Date.UTC(2100, 0, 1);

/** A schedule without its zone, and what it means. */
interface Case {
  spec: (timezone: string) => ScheduleSpec;
  meaning: Meaning;
}

const time = fc
  .tuple(fc.nat(23), fc.nat(59))
  .map(([hour, minute]) => `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`);
const times = fc.uniqueArray(time, { minLength: 1, maxLength: 6 }).map((list) => list.sort());
type WithTimes = Parameters<typeof meaningOf>[0];
const withTimes = (fields: fc.Arbitrary<Omit<WithTimes, "timezone">>) =>
  fields.map((fields): Case => {
    const spec = (timezone: string) => ({ ...fields, timezone }) as WithTimes;
    return { spec, meaning: meaningOf(spec("UTC")) };
  });

/** One field of a cron expression: its text, and the values that it stands for. */
interface Field {
  text: string;
  values: ReadonlySet<number>;
}
const range = (from: number, to: number, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, nth) => from + nth * step);
function fieldOf(least: number, most: number, spread: number): fc.Arbitrary<Field> {
  const value = fc.integer({ min: least, max: most });
  const part = fc.oneof(
    value.map((one) => ({ text: `${one}`, values: [one] })),
    fc.tuple(value, value, fc.integer({ min: 1, max: spread })).map(([a, b, step]) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      return { text: step === 1 ? `${from}-${to}` : `${from}-${to}/${step}`, values: range(from, to, step) };
    }),
  );
  const list = fc
    .array(part, { minLength: 1, maxLength: 3 })
    .map((parts) => ({ text: parts.map(({ text }) => text).join(","), values: parts.flatMap(({ values }) => values) }));
  const star = fc
    .integer({ min: 1, max: spread })
    .map((step) => ({ text: step === 1 ? "*" : `*/${step}`, values: range(least, most, step) }));
  return fc.oneof(list, star).map(({ text, values }) => ({ text, values: new Set(values) }));
}
const cron = fc
  .tuple(fieldOf(0, 59, 30), fieldOf(0, 23, 12), fieldOf(1, 31, 15), fieldOf(1, 12, 6), fieldOf(0, 6, 3))
  // At most 50 times a day, so that the count stays quick.
  .filter(([minute, hour]) => minute.values.size * hour.values.size <= 50)
  .map(([minute, hour, day, month, weekday]): Case => {
    const text = [minute, hour, day, month, weekday].map((field) => field.text).join(" ");
    const either = !day.text.startsWith("*") && !weekday.text.startsWith("*");
    const isDue = (date: Date) => {
      if (!month.values.has(date.getUTCMonth() + 1)) return false;
      const [is_day, is_weekday] = [day.values.has(date.getUTCDate()), weekday.values.has(date.getUTCDay())];
      return either ? is_day || is_weekday : is_day && is_weekday;
    };
    const minutes = [...hour.values].flatMap((hour) => [...minute.values].map((minute) => hour * 60 + minute));
    return { spec: (timezone) => ({ interval: "cron", cron: text, timezone }), meaning: { isDue, minutes } };
  });

/** Schedules of each interval, and the number of days per test. */
const INTERVALS = {
  daily: { days: 5, schedule: withTimes(fc.record({ interval: fc.constant("daily" as const), times })) },
  weekly: {
    days: 30,
    schedule: withTimes(
      fc.record({
        interval: fc.constant("weekly" as const),
        times,
        days_of_week: fc.subarray([...WEEKDAYS], { minLength: 1 }),
      }),
    ),
  },
  monthly: {
    days: 100,
    schedule: withTimes(
      fc.record({
        interval: fc.constant("monthly" as const),
        times,
        day_of_month: fc.oneof(fc.constant("last" as const), fc.integer({ min: 1, max: 31 })),
      }),
    ),
  },
  cron: { days: 10, schedule: cron },
};

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
        fc.property(schedule, near, ({ spec, meaning }, from) => {
          const until = from + days * DAY_MS;
          expect(runsOf(spec(timezone), from, until)).toEqual(countDays(meaning, timezone, from, until));
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
      const schedule: WithTimes = { interval: "daily", times: [wall], timezone };
      expect(runsOf(schedule, from, from + 4 * DAY_MS), timezone).toEqual(
        countDays(meaningOf(schedule), timezone, from, from + 4 * DAY_MS),
      );
    }
  }
});

describe("from 2026 to 2030, for all zones", () => {
  const FROM = Date.UTC(2026, 0, 1);
  const UNTIL = Date.UTC(2031, 0, 1);
  /** The zones by their offsets in these years: zones with the same offsets have the same runs. */
  const groups = Map.groupBy(ZONES, (timezone) => {
    let at = Temporal.Instant.fromEpochMilliseconds(FROM - 3 * DAY_MS).toZonedDateTimeISO(timezone);
    const offsets = [at.offset];
    for (;;) {
      const change = at.getTimeZoneTransition("next");
      if (change === null || change.epochMilliseconds > UNTIL + 3 * DAY_MS) return offsets.join(" ");
      offsets.push(`${change.epochMilliseconds}${change.offset}`);
      at = change;
    }
  });
  // Times in, before and after the hours at which clocks change.
  const AROUND = ["00:30", "02:00", "02:30", "03:00", "23:59"];
  const CRON = "30 2,3 1-7,29-31 */2 sun";
  const isCronDue = (date: Date) =>
    date.getUTCMonth() % 2 === 0 && (date.getUTCDay() === 0 || date.getUTCDate() <= 7 || date.getUTCDate() >= 29);
  const schedules: [string, Case][] = [
    ["daily at two times", withSpec({ interval: "daily", times: ["02:30", "03:15"] })],
    ["on Mondays and Sundays", withSpec({ interval: "weekly", times: AROUND, days_of_week: ["monday", "sunday"] })],
    ["on the last day of the month", withSpec({ interval: "monthly", times: AROUND, day_of_month: "last" })],
    ["on the 29th", withSpec({ interval: "monthly", times: AROUND, day_of_month: 29 })],
    [
      `by cron ${CRON}`,
      {
        spec: (timezone) => ({ interval: "cron", cron: CRON, timezone }),
        meaning: { isDue: isCronDue, minutes: [150, 210] },
      },
    ],
  ];
  test.each(schedules)("the runs %s are those of a day-by-day count", (_, { spec, meaning }) => {
    expect([...groups.values()].flat()).toHaveLength(ZONES.length);
    for (const [timezone = ""] of groups.values()) {
      expect(runsOf(spec(timezone), FROM, UNTIL), timezone).toEqual(countDays(meaning, timezone, FROM, UNTIL));
    }
  });

  function withSpec(
    fields: Omit<WithTimes, "timezone"> & { days_of_week?: string[]; day_of_month?: number | "last" },
  ): Case {
    const spec = (timezone: string) => ({ ...fields, timezone }) as WithTimes;
    return { spec, meaning: meaningOf(spec("UTC")) };
  }
});
