import { WEEKDAYS, type Weekday } from "../../kernel/constants.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { instantOf } from "../../platform/lib/instant.ts";

/** When an agent runs, in the wall time of a zone. */
export type ScheduleSpec = {
  /** HH:MM, 00:00 to 23:59. */
  readonly time: string;
  /** IANA name, see contract/schedules.ts. */
  readonly timezone: string;
} & (
  | { readonly interval: "daily" }
  | { readonly interval: "weekly"; readonly day_of_week: Weekday }
  /** A day beyond the month's end falls on its last day. */
  | { readonly interval: "monthly"; readonly day_of_month: number | "last" }
);

/** One entry of a preview. It has a `note` if the clocks change between the run before and this one. */
export interface UpcomingRun {
  at: Instant;
  note?: string;
}

/** A day on which the schedule is due, with the instant. */
interface Due {
  readonly wall: Temporal.PlainDateTime;
  readonly at: Temporal.ZonedDateTime;
}

/**
 * A bound on the days to check. A gap can move an earlier day's instant after now, today's can be past, and a skipped
 * day coincides with the next.
 */
const MAX_CANDIDATES = 6;

/**
 * The first due instant after `after`. A wall time skipped by a clock change moves later by the length of the gap; a
 * repeated one counts only the first time (Temporal's "compatible", RFC 5545's rule).
 */
export function next(spec: ScheduleSpec, after: Instant): Instant {
  return instantOf(findNextDue(spec, Temporal.Instant.from(after)).at.toInstant());
}

/** The next `count` runs after `after`, with a note where a daylight-saving change affects them. */
export function listUpcoming(spec: ScheduleSpec, after: Instant, count: number): UpcomingRun[] {
  const runs: UpcomingRun[] = [];
  let before = Temporal.Instant.from(after).toZonedDateTimeISO(spec.timezone);
  while (runs.length < count) {
    const due = findNextDue(spec, before.toInstant());
    const note = describeShift(due, before);
    runs.push({ at: instantOf(due.at.toInstant()), ...(note === null ? {} : { note }) });
    before = due.at;
  }
  return runs;
}

function findNextDue(spec: ScheduleSpec, after: Temporal.Instant): Due {
  const time = Temporal.PlainTime.from(spec.time);
  const today = after.toZonedDateTimeISO(spec.timezone).toPlainDate();
  let date = findFirstDate(spec, today.subtract({ days: 1 }));
  for (let candidate = 0; candidate < MAX_CANDIDATES; candidate++) {
    const wall = date.toPlainDateTime(time);
    const at = wall.toZonedDateTime(spec.timezone, { disambiguation: "compatible" });
    if (Temporal.Instant.compare(at.toInstant(), after) > 0) return { wall, at };
    date = findFirstDate(spec, date.add({ days: 1 }));
  }
  throw new Error(`no next run after ${after} for ${JSON.stringify(spec)}`);
}

/** The first date of the schedule from `from` on, inclusive. */
function findFirstDate(spec: ScheduleSpec, from: Temporal.PlainDate): Temporal.PlainDate {
  switch (spec.interval) {
    case "daily":
      return from;
    case "weekly": {
      const wanted = WEEKDAYS.indexOf(spec.day_of_week) + 1;
      return from.add({ days: (wanted - from.dayOfWeek + 7) % 7 });
    }
    case "monthly": {
      const this_month = clampDayOfMonth(from, spec.day_of_month);
      const passed = Temporal.PlainDate.compare(this_month, from) < 0;
      return passed ? clampDayOfMonth(from.add({ months: 1 }), spec.day_of_month) : this_month;
    }
  }
}

/** `day` in the month of `date`, limited to its last day: 31 gives 28 February, and then 31 March. */
function clampDayOfMonth(date: Temporal.PlainDate, day: number | "last"): Temporal.PlainDate {
  return date.with({ day: day === "last" ? date.daysInMonth : Math.min(day, date.daysInMonth) });
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
