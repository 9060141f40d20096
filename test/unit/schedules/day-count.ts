import { next, type ScheduleSpec } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { ZONE_LINKS } from "./zone-links.ts";

/** Counts the runs of a schedule day by day, without Temporal's calendar and without a parser of cron. */

export const DAY_MS = 86_400_000;
export const ZONES = [...Intl.supportedValuesOf("timeZone"), ...ZONE_LINKS];

/** What a schedule means: whether it is due on a date (in UTC), and its minutes of the day. */
export interface Meaning {
  isDue(date: Date): boolean;
  minutes: readonly number[];
}

/** The zone's offset in milliseconds at an instant. The count uses no other data of zones. */
function offsetAt(timezone: string, at_ms: number): number {
  return Temporal.Instant.fromEpochMilliseconds(at_ms).toZonedDateTimeISO(timezone).offsetNanoseconds / 1e6;
}

/** The instant at which the wall clock shows `wall_ms` (as if UTC): the first one, or in a gap by the offset before it. */
function instantOfWall(timezone: string, wall_ms: number): number {
  const offsets = [wall_ms - 1.5 * DAY_MS, wall_ms + 1.5 * DAY_MS].map((at) => offsetAt(timezone, at));
  const shown = offsets.map((offset) => wall_ms - offset).filter((at) => at + offsetAt(timezone, at) === wall_ms);
  return shown.length > 0 ? Math.min(...shown) : wall_ms - (offsets[0] ?? 0);
}

/** The meaning of a daily, weekly or monthly schedule. */
export function meaningOf(spec: Extract<ScheduleSpec, { interval: "daily" | "weekly" | "monthly" }>): Meaning {
  const minutes = spec.times.map((time) => {
    const [hour = 0, minute = 0] = time.split(":").map(Number);
    return hour * 60 + minute;
  });
  const isDue = (date: Date): boolean => {
    if (spec.interval === "daily") return true;
    if (spec.interval === "weekly") {
      const day = WEEKDAYS[(date.getUTCDay() + 6) % 7];
      return day !== undefined && spec.days_of_week.includes(day);
    }
    const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
    return date.getUTCDate() === (spec.day_of_month === "last" ? last : Math.min(spec.day_of_month, last));
  };
  return { isDue, minutes };
}

/** Every run in (from, until]. */
export function countDays({ isDue, minutes }: Meaning, timezone: string, from: number, until: number): number[] {
  const first_day = Math.floor(from / DAY_MS) * DAY_MS - 3 * DAY_MS;
  const runs = new Set<number>();
  for (let day = first_day; day <= until + 3 * DAY_MS; day += DAY_MS) {
    if (!isDue(new Date(day))) continue;
    for (const minute of minutes) {
      const at = instantOfWall(timezone, day + minute * 60_000);
      if (at > from && at <= until) runs.add(at);
    }
  }
  return [...runs].sort((a, b) => a - b);
}

/** The runs of `next` in (from, until]. Throws unless they are strictly increasing. */
export function runsOf(spec: ScheduleSpec, from: number, until: number): number[] {
  const runs: number[] = [];
  let at = from;
  for (;;) {
    const due = next(spec, new Date(at).toISOString());
    if (due === null || Date.parse(due) > until) return runs;
    if (Date.parse(due) <= at) throw new Error(`${due} does not come after ${new Date(at).toISOString()}`);
    at = Date.parse(due);
    runs.push(at);
  }
}
