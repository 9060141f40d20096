import type { ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import type { Agent, Schedule } from "./api/queries.ts";
import { capital, LOCALE } from "./format.ts";

/** When a schedule is due, as the API returns it. */
export type ScheduleTimes = Pick<
  Schedule,
  "interval" | "times" | "days_of_week" | "day_of_month" | "cron" | "run_at" | "timezone"
>;

/** The browser's time zone. */
export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The times for the service's own next-run function; null: a field is missing. */
export function specOf(of: ScheduleTimes): ScheduleSpec | null {
  const { interval, timezone, cron, run_at } = of;
  const times = of.times?.filter((time) => time !== "") ?? [];
  const days_of_week = of.days_of_week ?? [];
  if (interval === "cron") return cron ? { interval, cron, timezone } : null;
  if (interval === "once") return run_at ? { interval, run_at, timezone } : null;
  if (times.length === 0) return null;
  const sorted = times.toSorted();
  if (interval === "daily") return { interval, times: sorted, timezone };
  if (interval === "monthly") return { interval, times: sorted, timezone, day_of_month: of.day_of_month ?? 1 };
  return days_of_week.length === 0 ? null : { interval, times: sorted, timezone, days_of_week };
}

/** The schedule in a sentence: "Weekdays at 07:30, Berlin time"; null: a field is missing. */
export function scheduleInWords(times: ScheduleTimes): string | null {
  const spec = specOf(times);
  if (spec === null) return null;
  const place = spec.timezone === "UTC" ? "UTC" : `${zoneName(spec.timezone)} time`;
  if (spec.interval === "cron") return `Cron ${spec.cron}, ${place}`;
  if (spec.interval === "once") return `Once, on ${onceFormat.format(new Date(`${spec.run_at}Z`))}, ${place}`;
  return `${rhythm(spec)} at ${list.format(spec.times)}, ${place}`;
}

/** The default schedule of an agent in a sentence; null: it has none, or one that the agent's own fields cannot tell. */
export function defaultScheduleInWords(agent: Agent): string | null {
  if (!agent.schedule_enabled || agent.schedule_interval === null) return null;
  return scheduleInWords({
    interval: agent.schedule_interval,
    times: agent.schedule_time === null ? null : [agent.schedule_time],
    days_of_week: agent.schedule_days_of_week,
    day_of_month: agent.schedule_day_of_month,
    cron: null,
    run_at: null,
    timezone: agent.schedule_timezone,
  });
}

const list = new Intl.ListFormat("en", { type: "conjunction" });
const onceFormat = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

const WEEKEND = ["saturday", "sunday"];
function rhythm(spec: Extract<ScheduleSpec, { times: readonly string[] }>): string {
  if (spec.interval === "daily") return "Every day";
  if (spec.interval === "weekly") {
    const { days_of_week: days } = spec;
    const weekend_days = days.filter((day) => WEEKEND.includes(day)).length;
    if (days.length === 7) return "Every day";
    if (days.length === 5 && weekend_days === 0) return "Weekdays";
    if (days.length === 2 && weekend_days === 2) return "Weekends";
    return `Every ${list.format(days.map(capital))}`;
  }
  return spec.day_of_month === "last"
    ? "On the last day of every month"
    : `On the ${ordinal(spec.day_of_month)} of every month`;
}

const ENDINGS: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (value: number) => `${value}${ENDINGS[ordinals.select(value)] ?? "th"}`;

/** The city in a zone's name: "New York". */
export const zoneName = (zone: string): string => (zone.split("/").at(-1) ?? zone).replaceAll("_", " ");

/** An instant in the local time of `zone`. */
export function wallTime(at: string, zone: string): string {
  const options = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
  return new Intl.DateTimeFormat(LOCALE, { ...options, timeZone: zone }).format(new Date(at));
}

/** The time here of an instant in `zone`: "07:30 AM in Berlin"; null: the clocks show the same, as for zones with two names. */
export function ownTime(at: string, zone: string): string | null {
  const own = wallTime(at, OWN_ZONE);
  return own === wallTime(at, zone) ? null : `${own} in ${zoneName(OWN_ZONE)}`;
}
