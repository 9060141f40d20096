import type { ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import { LOCALE } from "./format.ts";

/** An agent's schedule fields, as the API returns them. */
export interface ScheduleFields {
  schedule_enabled: boolean;
  schedule_interval: ScheduleSpec["interval"] | null;
  /** null: none, or several. */
  schedule_time: string | null;
  schedule_day_of_week: string | null;
  schedule_days_of_week?: readonly string[] | null;
  schedule_day_of_month: number | "last" | null;
  schedule_timezone: string;
}
type Simple = Extract<ScheduleSpec, { times: readonly string[] }>;
type Weekday = Extract<ScheduleSpec, { interval: "weekly" }>["days_of_week"][number];

/** The browser's time zone. */
export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The schedule for the service's own next-run function; null: a field is missing, or the fields cannot tell it. */
export function specOf(fields: ScheduleFields): Simple | null {
  const { schedule_interval: interval, schedule_time: time, schedule_timezone: timezone } = fields;
  if (interval === null || interval === "cron" || interval === "once" || time === null || time === "") return null;
  const times = [time];
  if (interval === "daily") return { interval, times, timezone };
  if (interval === "monthly") return { interval, times, timezone, day_of_month: fields.schedule_day_of_month ?? 1 };
  const { schedule_day_of_week: day } = fields;
  const days = day === null ? fields.schedule_days_of_week : [day];
  return days == null ? null : { interval, times, timezone, days_of_week: days as Weekday[] };
}

/** The schedule in a sentence: "Every Monday at 07:30, Berlin time". */
export function scheduleInWords(fields: ScheduleFields): string {
  const spec = specOf(fields);
  if (spec === null) return fields.schedule_interval === null ? "No schedule" : "At the times that its schedule lists";
  const place = spec.timezone === "UTC" ? "UTC" : `${zoneName(spec.timezone)} time`;
  return `${rhythm(spec)} at ${spec.times.join(", ")}, ${place}`;
}

function rhythm(spec: Simple): string {
  if (spec.interval === "daily") return "Every day";
  if (spec.interval === "weekly") return `Every ${spec.days_of_week.map(capital).join(", ")}`;
  return spec.day_of_month === "last"
    ? "On the last day of every month"
    : `On the ${ordinal(spec.day_of_month)} of every month`;
}

const ENDINGS: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (value: number) => `${value}${ENDINGS[ordinals.select(value)] ?? "th"}`;
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

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
