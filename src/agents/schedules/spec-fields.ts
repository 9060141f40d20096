import { WEEKDAYS, type Weekday } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { parseCron } from "./cron.ts";
import { next, type ScheduleSpec, shortestGapMinutes } from "./spec.ts";

/** The fields of a schedule that say when it is due, as its user has set them so far. */
export interface SpecFields {
  readonly timezone: string;
  readonly interval?: ScheduleSpec["interval"] | undefined;
  readonly times?: readonly string[] | undefined;
  readonly days_of_week?: readonly Weekday[] | undefined;
  readonly day_of_month?: number | "last" | undefined;
  readonly cron?: string | undefined;
  readonly run_at?: string | undefined;
  readonly starts_at?: Instant | undefined;
  readonly ends_at?: Instant | undefined;
}
type Field = keyof SpecFields;
/** null clears a field. */
export type SpecChanges = { readonly [Name in Field]?: SpecFields[Name] | null | undefined };
/** The names by which a request has the fields; absent: its own. */
export type FieldNames = { readonly [Name in Field]?: string };

/** The fields that each interval needs. */
const FIELDS_OF: Record<ScheduleSpec["interval"], readonly Field[]> = {
  daily: ["times"],
  weekly: ["times", "days_of_week"],
  monthly: ["times", "day_of_month"],
  cron: ["cron"],
  once: ["run_at"],
};
const FIELDS_OF_INTERVALS = [...new Set(Object.values(FIELDS_OF).flat())];

/**
 * The fields after a change. Another interval drops the fields that it does not have. Throws 400 for a given field that
 * the interval does not have, and for an unreadable cron expression.
 */
export function changeSpec(before: SpecFields, changes: SpecChanges, names: FieldNames = {}): SpecFields {
  const changed: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete changed[name];
    else if (value !== undefined) changed[name] = value;
  }
  changed.timezone ??= "UTC";
  const { interval } = changed as Partial<SpecFields>;
  if (interval !== undefined) {
    for (const field of FIELDS_OF_INTERVALS.filter((name) => !FIELDS_OF[interval].includes(name))) {
      if (changes[field] != null)
        throw errors.invalidValue(names[field] ?? field, explainUnused(field, interval, names));
      delete changed[field];
    }
    if (interval === "monthly") changed.day_of_month ??= 1;
  }
  const fields = changed as unknown as SpecFields;
  if (changes.cron != null) requireCron(changes.cron);
  return {
    ...fields,
    ...(fields.times === undefined ? {} : { times: [...new Set(fields.times)].sort() }),
    ...(fields.days_of_week === undefined
      ? {}
      : { days_of_week: WEEKDAYS.filter((day) => fields.days_of_week?.includes(day)) }),
  };
}

function explainUnused(field: Field, interval: ScheduleSpec["interval"], names: FieldNames): string {
  const name = names[field] ?? field;
  const intervals = Object.entries(FIELDS_OF).flatMap(([of, fields]) => (fields.includes(field) ? [of] : []));
  return `${name} is for ${names.interval ?? "interval"} ${intervals.join(", ")}, and it is ${interval}. Leave it out, or change the ${names.interval ?? "interval"}.`;
}

function requireCron(cron: string): void {
  try {
    parseCron(cron);
  } catch {
    throw errors.invalidValue(
      "cron",
      "cron must be five fields, such as 30 8 * * 1-5: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat), each with * , - and /.",
    );
  }
}

/** The fields as a complete schedule. Throws 400 for a missing one. */
export function toSpec(fields: SpecFields, names: FieldNames = {}): ScheduleSpec {
  if (fields.interval === undefined) throw errors.missingField(names.interval ?? "interval");
  const missing = FIELDS_OF[fields.interval].find((name) => fields[name] === undefined);
  if (missing !== undefined) throw errors.missingField(names[missing] ?? missing);
  return fields as ScheduleSpec;
}

/** Throws 400 for a schedule without a run after `now`, and for one with fewer than `min_minutes` between two runs. */
export function requireRuns(
  spec: ScheduleSpec,
  { now, min_minutes }: { now: Instant; min_minutes: number },
  names: FieldNames = {},
): void {
  if (spec.starts_at !== undefined && spec.ends_at !== undefined && spec.starts_at >= spec.ends_at) {
    throw errors.invalidValue("ends_at", "ends_at must be later than starts_at.");
  }
  if (next(spec, now) === null) throw explainNoRun(spec);
  const minutes = shortestGapMinutes(spec);
  if (minutes >= min_minutes) return;
  const field = spec.interval === "cron" ? "cron" : (names.times ?? "times");
  throw errors.invalidValue(
    field,
    `${field} has two runs within ${minutes} ${minutes === 1 ? "minute" : "minutes"}. Leave at least ${min_minutes} minutes between them.`,
  );
}

function explainNoRun(spec: ScheduleSpec) {
  if (spec.interval === "once" && spec.ends_at === undefined && spec.starts_at === undefined) {
    return errors.invalidValue(
      "run_at",
      `run_at ${spec.run_at} (${spec.timezone}) has passed. Give a later date and time.`,
    );
  }
  if (spec.ends_at !== undefined || spec.interval === "once") {
    const field = spec.ends_at === undefined ? "starts_at" : "ends_at";
    return errors.invalidValue(field, `The schedule has no run from now on: see ${field}. Change it, or leave it out.`);
  }
  return errors.invalidValue("cron", "cron matches no date of the next 41 years. Check its day of month and month.");
}
