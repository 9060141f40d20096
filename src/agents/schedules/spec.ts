import { WEEKDAYS, type Weekday } from "../../kernel/constants.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import { type DayPattern, parseCron } from "./cron.ts";

/** When a schedule is due, in the wall time of a zone. */
export type ScheduleSpec = {
  /** IANA name, see contract/schedules.ts. */
  readonly timezone: string;
  /** Not due before this instant. */
  readonly starts_at?: Instant | undefined;
  /** Not due at this instant or later. */
  readonly ends_at?: Instant | undefined;
} & (
  | ({ readonly interval: "daily" } & Times)
  | ({ readonly interval: "weekly"; readonly days_of_week: readonly Weekday[] } & Times)
  /** A day beyond the month's end falls on its last day. */
  | ({ readonly interval: "monthly"; readonly day_of_month: number | "last" } & Times)
  /** Five fields, see cron.ts. */
  | { readonly interval: "cron"; readonly cron: string }
  /** Local date and time. */
  | { readonly interval: "once"; readonly run_at: string }
);

interface Times {
  /** HH:MM, 00:00 to 23:59, ascending. */
  readonly times: readonly string[];
}

/** One entry of a preview. It has a `note` if the clocks change between the run before and this one. */
export interface UpcomingRun {
  at: Instant;
  note?: string;
}

/** A wall time at which the schedule is due, with the instant. */
interface Due {
  readonly wall: Temporal.PlainDateTime;
  readonly at: Temporal.ZonedDateTime;
}

/** The days without a due time after which a schedule has ended. 29 February is a Sunday once in 40 years at the latest. */
const MAX_DAYS = 41 * 366;

/**
 * The first due instant after `after`; null: the schedule has ended. A wall time skipped by a clock change moves later by
 * the length of the gap; a repeated one counts only the first time (Temporal's "compatible", RFC 5545's rule). Two wall
 * times that fall on one instant are due once.
 */
export function next(spec: ScheduleSpec, after: Instant): Instant | null {
  const due = findNextDue(spec, Temporal.Instant.from(after));
  return due === null ? null : instantOf(due.at.toInstant());
}

/** The next `count` runs after `after`, fewer if the schedule ends, with a note where a daylight-saving change affects them. */
export function listUpcoming(spec: ScheduleSpec, after: Instant, count: number): UpcomingRun[] {
  const runs: UpcomingRun[] = [];
  let before = Temporal.Instant.from(after).toZonedDateTimeISO(spec.timezone);
  while (runs.length < count) {
    const due = findNextDue(spec, before.toInstant());
    if (due === null) break;
    const note = describeShift(due, before);
    runs.push({ at: instantOf(due.at.toInstant()), ...(note === null ? {} : { note }) });
    before = due.at;
  }
  return runs;
}

/** The shortest time between two wall times of the schedule, in minutes; Infinity with only one. */
export function shortestGapMinutes(spec: ScheduleSpec): number {
  let least = Infinity;
  let before: Temporal.PlainDateTime | null = null;
  let counted = 0;
  const from = Temporal.PlainDateTime.from(COMPARED_FROM);
  for (const wall of listWalls(spec, from)) {
    if (before !== null) least = Math.min(least, wall.since(before).total("minutes"));
    before = wall;
    counted += 1;
    if (counted === GAPS_COMPARED || wall.year > from.year + 1) break;
  }
  return least;
}

/** Wall times whose distances are compared: two years, or more than a day of every-minute times. A text: browsers without Temporal load this file. */
const COMPARED_FROM = "2000-01-01";
const GAPS_COMPARED = 1_500;

function findNextDue(spec: ScheduleSpec, asked: Temporal.Instant): Due | null {
  const after = notBefore(asked, spec.starts_at);
  const now = after.toZonedDateTimeISO(spec.timezone);
  // A gap of the last 24 hours moves earlier wall times to later instants.
  const gap_ns = Math.max(0, now.offsetNanoseconds - now.subtract({ hours: 24 }).offsetNanoseconds);
  let found: Due | null = null;
  for (const wall of listWalls(spec, now.toPlainDateTime().subtract({ nanoseconds: gap_ns }))) {
    // Only wall times inside the gap that moved `found` can be due earlier.
    if (found !== null && Temporal.PlainDateTime.compare(wall, found.at.toPlainDateTime()) >= 0) break;
    const at = wall.toZonedDateTime(spec.timezone, { disambiguation: "compatible" });
    if (Temporal.Instant.compare(at.toInstant(), after) <= 0) continue;
    if (found === null || Temporal.ZonedDateTime.compare(at, found.at) < 0) found = { wall, at };
    if (found.at.toPlainDateTime().equals(found.wall)) break;
  }
  if (found === null || spec.ends_at === undefined) return found;
  return Temporal.Instant.compare(found.at.toInstant(), Temporal.Instant.from(spec.ends_at)) < 0 ? found : null;
}

function notBefore(after: Temporal.Instant, starts_at: Instant | undefined): Temporal.Instant {
  if (starts_at === undefined) return after;
  const start = Temporal.Instant.from(starts_at).subtract({ nanoseconds: 1 });
  return Temporal.Instant.compare(start, after) > 0 ? start : after;
}

/** The schedule's wall times from `from` on, ascending. */
function* listWalls(spec: ScheduleSpec, from: Temporal.PlainDateTime): Generator<Temporal.PlainDateTime> {
  if (spec.interval === "once") {
    yield Temporal.PlainDateTime.from(spec.run_at);
    return;
  }
  const { isDue, times } = readPattern(spec);
  let date = from.toPlainDate();
  for (let idle_days = 0; idle_days < MAX_DAYS; idle_days += 1, date = date.add({ days: 1 })) {
    if (!isDue(date)) continue;
    for (const time of times) {
      const wall = date.toPlainDateTime(time);
      if (Temporal.PlainDateTime.compare(wall, from) >= 0) yield wall;
    }
    idle_days = 0;
  }
}

function readPattern(spec: Exclude<ScheduleSpec, { interval: "once" }>): DayPattern {
  if (spec.interval === "cron") return parseCron(spec.cron);
  const times = spec.times.map((time) => Temporal.PlainTime.from(time));
  switch (spec.interval) {
    case "daily":
      return { isDue: () => true, times };
    case "weekly": {
      const days = spec.days_of_week.map((day) => WEEKDAYS.indexOf(day) + 1);
      return { isDue: ({ dayOfWeek }) => days.includes(dayOfWeek), times };
    }
    case "monthly": {
      // 31 is 28 February, and then 31 March.
      const day = spec.day_of_month === "last" ? 31 : spec.day_of_month;
      return { isDue: (date) => date.day === Math.min(day, date.daysInMonth), times };
    }
  }
}

function describeShift({ wall, at }: Due, before: Temporal.ZonedDateTime): string | null {
  const time = wall.toPlainTime().toString({ smallestUnit: "minute" });
  if (!at.toPlainDateTime().equals(wall)) {
    const moved = at.toPlainDateTime().toString({ smallestUnit: "minute" }).replace("T", " ");
    return `Clocks skip ${wall.toPlainDate()} ${time}: runs at ${moved}.`;
  }
  const later = wall.toZonedDateTime(at.timeZoneId, { disambiguation: "later" });
  if (!later.equals(at)) return `Clocks show ${time} twice on this day: runs the first time only.`;
  const shift_minutes = (at.offsetNanoseconds - before.offsetNanoseconds) / 60_000_000_000;
  if (shift_minutes === 0) return null;
  const direction = shift_minutes > 0 ? "forward" : "back";
  return `Clocks have gone ${direction} ${Math.abs(shift_minutes)} minutes: still ${time} local time.`;
}
