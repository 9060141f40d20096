import type { ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import { LOCALE } from "./format.ts";

/** An agent's schedule fields, as the API returns them. */
export interface ScheduleFields {
  schedule_enabled: boolean;
  schedule_interval: "daily" | "weekly" | "monthly" | null;
  schedule_time: string | null;
  schedule_day_of_week: string | null;
  schedule_day_of_month: number | "last" | null;
  schedule_timezone: string;
}

/** The browser's time zone. */
export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The schedule for the service's own next-run function; null: a field is missing. */
export function specOf(fields: ScheduleFields): ScheduleSpec | null {
  const { schedule_interval: interval, schedule_time: time, schedule_timezone: timezone } = fields;
  if (interval === null || time === null || time === "") return null;
  if (interval === "daily") return { interval, time, timezone };
  if (interval === "monthly") return { interval, time, timezone, day_of_month: fields.schedule_day_of_month ?? 1 };
  if (fields.schedule_day_of_week === null) return null;
  type Weekday = Extract<ScheduleSpec, { interval: "weekly" }>["day_of_week"];
  return { interval, time, timezone, day_of_week: fields.schedule_day_of_week as Weekday };
}

/** The schedule in a sentence: "Every Monday at 07:30, Berlin time". */
export function scheduleInWords(fields: ScheduleFields): string {
  const spec = specOf(fields);
  if (spec === null) return "No schedule";
  const place = spec.timezone === "UTC" ? "UTC" : `${zoneName(spec.timezone)} time`;
  return `${rhythm(spec)} at ${spec.time}, ${place}`;
}

function rhythm(spec: ScheduleSpec): string {
  if (spec.interval === "daily") return "Every day";
  if (spec.interval === "weekly") return `Every ${capital(spec.day_of_week)}`;
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
