import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import type { Schedule } from "../api/queries.ts";
import { OWN_ZONE, type ScheduleTimes } from "../schedule-words.ts";

/** The times of a schedule's form. */

export type Weekday = (typeof WEEKDAYS)[number];
/** When a schedule is due, as it is typed. */
export interface TimesDraft {
  interval: Schedule["interval"];
  times: string[];
  days_of_week: Weekday[];
  day_of_month: number | "last";
  cron: string;
  run_at: string;
  timezone: string;
}

const WORKDAYS = WEEKDAYS.slice(0, 5);

export const timesDraft = (schedule: Schedule | null): TimesDraft => ({
  interval: schedule?.interval ?? "daily",
  times: schedule?.times ?? ["09:00"],
  days_of_week: schedule?.days_of_week ?? WORKDAYS,
  day_of_month: schedule?.day_of_month ?? 1,
  cron: schedule?.cron ?? "",
  run_at: schedule?.run_at ?? "",
  timezone: schedule?.timezone ?? OWN_ZONE,
});

/** The times of a draft: only the fields that its interval has. */
export function timesOf({
  interval,
  times,
  days_of_week,
  day_of_month,
  cron,
  run_at,
  timezone,
}: TimesDraft): ScheduleTimes {
  return {
    interval,
    timezone,
    times: interval === "cron" || interval === "once" ? null : times,
    days_of_week: interval === "weekly" ? days_of_week : null,
    day_of_month: interval === "monthly" ? day_of_month : null,
    cron: interval === "cron" ? cron : null,
    run_at: interval === "once" ? run_at : null,
  };
}
