import type { AgentChanges, AgentRecord } from "../../api/contract/agents.ts";
import { errors } from "../../kernel/errors.ts";
import { stableJson } from "../../platform/lib/json.ts";
import type { ScheduleState } from "../schedules/schedules.service.ts";
import { changeSpec, type FieldNames, type SpecChanges } from "../schedules/spec-fields.ts";

/** The schedule named `default` as the agent's schedule_* fields. */

const FIELDS = [
  "schedule_enabled",
  "schedule_interval",
  "schedule_time",
  "schedule_day_of_week",
  "schedule_days_of_week",
  "schedule_day_of_month",
  "schedule_timezone",
] as const;

/** The agent's schedule_* fields that its user sets. */
export type ScheduleView = Pick<AgentRecord, (typeof FIELDS)[number]>;
type ViewChanges = Pick<AgentChanges, (typeof FIELDS)[number]>;
type DefaultSchedule = Pick<ScheduleState, "spec" | "enabled">;

/** The names of a schedule's fields in an agent's request. */
export const VIEW_NAMES: FieldNames = {
  interval: "schedule_interval",
  times: "schedule_time",
  days_of_week: "schedule_day_of_week",
  day_of_month: "schedule_day_of_month",
  timezone: "schedule_timezone",
};

/** The fields of a version that has none of them. */
export const EMPTY_VIEW: ScheduleView = showDefault({ spec: { timezone: "UTC" }, enabled: false });

/** A field is null where the schedule has more than it can tell: several times, or several days. */
export function showDefault({ spec, enabled }: DefaultSchedule): ScheduleView {
  const { interval = null, times = [], days_of_week, day_of_month = null, timezone } = spec;
  const only = <Value>(list: readonly Value[]) => (list.length === 1 ? (list[0] ?? null) : null);
  return {
    schedule_enabled: enabled,
    schedule_interval: interval,
    schedule_time: only(times),
    schedule_day_of_week: only(days_of_week ?? []),
    schedule_days_of_week: days_of_week === undefined ? null : [...days_of_week],
    schedule_day_of_month: day_of_month,
    schedule_timezone: timezone,
  };
}

/** Splits the changes of an agent into those of its settings and those of its schedule. */
export function splitChanges<Changes extends AgentChanges>(changes: Changes) {
  const schedule: Record<string, unknown> = {};
  const settings: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(changes)) {
    (FIELDS.includes(name as (typeof FIELDS)[number]) ? schedule : settings)[name] = value;
  }
  return { settings: settings as Omit<Changes, keyof ScheduleView>, schedule: schedule as ViewChanges };
}

/**
 * The schedule after a change of the agent's schedule_* fields. A null that the agent already shows changes nothing.
 * Throws 400 for fields that do not fit together.
 */
export function changeDefault(before: DefaultSchedule, changes: ViewChanges): DefaultSchedule {
  const view = showDefault(before);
  const given = <Name extends keyof ViewChanges>(name: Name): ViewChanges[Name] =>
    changes[name] === null && view[name] === null ? undefined : changes[name];
  const interval = given("schedule_interval");
  if ((interval === "cron" || interval === "once") && interval !== view.schedule_interval) {
    const how = "POST or PATCH it at /api/v1/agents/{id}/schedules";
    throw errors.invalidValue(
      "schedule_interval",
      `schedule_interval must be daily, weekly or monthly. For ${interval}, ${how}.`,
    );
  }
  const time = given("schedule_time");
  const { days_of_week, name } = readDays(changes, view);
  const spec: SpecChanges = {
    interval,
    times: time == null ? time : [time],
    days_of_week,
    day_of_month: given("schedule_day_of_month"),
    timezone: changes.schedule_timezone,
  };
  return {
    spec: changeSpec(before.spec, spec, { ...VIEW_NAMES, days_of_week: name }),
    enabled: changes.schedule_enabled ?? before.enabled,
  };
}

/** The days by either of their fields: a record that was read and edited in one of them has the former days in the other. */
function readDays({ schedule_day_of_week: day, schedule_days_of_week: days }: ViewChanges, view: ScheduleView) {
  const is_day_changed = day !== undefined && day !== view.schedule_day_of_week;
  const is_list_changed = days !== undefined && stableJson(days) !== stableJson(view.schedule_days_of_week);
  const listed = day == null ? day : [day];
  if (is_day_changed && is_list_changed) {
    const only = days?.length === 1 ? days[0] : null;
    if (day !== only) {
      throw errors.invalidValue(
        "schedule_days_of_week",
        "schedule_day_of_week and schedule_days_of_week name different days. Send one of them.",
      );
    }
  }
  const is_list = is_list_changed || !is_day_changed;
  const value = is_list_changed ? days : is_day_changed ? listed : (days ?? listed ?? undefined);
  return { days_of_week: value, name: is_list && days != null ? "schedule_days_of_week" : "schedule_day_of_week" };
}
