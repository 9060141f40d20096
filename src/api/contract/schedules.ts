import { WEEKDAYS } from "../../kernel/constants.ts";
import {
  instantInput,
  instantSchema,
  json,
  listQuerySchema,
  longListQuerySchema,
  nameSchema,
  noFields,
  textSchema,
  timeZoneSchema,
  uuidSchema,
} from "./common.ts";
import { agentDeliveriesSchema } from "./deliveries.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { preferHeader, runInputSchema, runOutcomeSchema, runPromptSchema, startedRunAnswers } from "./runs.ts";
import { z } from "./zod.ts";

/** Schedules of an agent and their occurrences: contract 6. */

export const intervalSchema = z.enum(["daily", "weekly", "monthly", "cron", "once"]);
export const timeOfDaySchema = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, "a time of day, HH:MM from 00:00 to 23:59")
  .openapi({ description: "local time of day, HH:MM", example: "09:00" });
export const weekdaySchema = z.enum(WEEKDAYS);
export const dayOfMonthSchema = z
  .union([z.number().int().min(1).max(31), z.literal("last")])
  .openapi({ description: "clamped to the month's end" });
/** One entry of `upcoming_runs`. */
export const upcomingRunSchema = z
  .object({ at: instantSchema, note: z.string().optional().openapi({ description: "where clocks change" }) })
  .openapi("UpcomingRun");

/** Times of one day. */
const MAX_TIMES = 24;
export const weekdaysSchema = z
  .array(weekdaySchema)
  .min(1)
  .max(7)
  .openapi({ description: "days of a weekly schedule, in any order" });

const scheduleFields = {
  name: nameSchema(100).openapi({
    description: "unique within the agent; the agent's schedule_* fields show the one named `default`",
  }),
  interval: intervalSchema,
  times: z
    .array(timeOfDaySchema)
    .min(1)
    .max(MAX_TIMES)
    .nullable()
    .openapi({ description: "daily, weekly and monthly: local times of day", example: ["08:30", "17:00"] }),
  days_of_week: weekdaysSchema.nullable().openapi({ description: "weekly", example: ["monday", "thursday"] }),
  day_of_month: dayOfMonthSchema
    .nullable()
    .openapi({ description: "monthly: a day, clamped to the month's end; 1 unless given" }),
  cron: textSchema(200).nullable().openapi({
    description:
      "five fields: minute, hour, day of month, month, day of week. If neither day field begins with `*`, a day is due if either matches",
    example: "30 8 * * 1-5",
  }),
  run_at: z
    .string()
    .refine(isLocalDateTime, "a local date and time such as 2026-12-24T18:00")
    .nullable()
    .openapi({ description: "once: the local date and time", example: "2026-12-24T18:00" }),
  timezone: timeZoneSchema,
  starts_at: instantInput.nullable().openapi({ description: "no run before" }),
  ends_at: instantInput.nullable().openapi({ description: "no run then or later" }),
  input: runInputSchema.nullable(),
  run_prompt: runPromptSchema
    .nullable()
    .openapi({ description: "what its runs execute; null: the agent's run_prompt" }),
  deliveries: agentDeliveriesSchema
    .nullable()
    .openapi({ description: "where the results of its runs are sent; null: as the agent's deliveries say" }),
  enabled: z.boolean(),
} as const;

function isLocalDateTime(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text)) return false;
  try {
    return Temporal.PlainDateTime.from(text, { overflow: "reject" }).year >= 1970;
  } catch {
    return false;
  }
}

const changeScheduleSchema = z.strictObject(scheduleFields).partial();
const createScheduleSchema = changeScheduleSchema.required({ name: true, interval: true }).openapi("CreateSchedule");
export type ScheduleChanges = z.infer<typeof changeScheduleSchema>;
export type NewSchedule = z.infer<typeof createScheduleSchema>;
export const SCHEDULE_READ_ONLY = {
  fixed: ["id", "agent_id", "status", "paused_reason", "next_run_at", "api_key_id", "created_at", "updated_at"],
  moving: ["upcoming_runs", "consecutive_failures"],
} as const;
const patchScheduleSchema = changeScheduleSchema.extend(readOnlyFields(SCHEDULE_READ_ONLY)).openapi("UpdateSchedule");

export const scheduleStatusSchema = z.enum(["off", "active", "paused", "ended"]).openapi({
  description: "off: it is disabled, or its agent is; ended: it has no further run",
});
const scheduleSchema = z
  .object({
    id: uuidSchema,
    agent_id: uuidSchema,
    ...scheduleFields,
    starts_at: instantSchema.nullable(),
    ends_at: instantSchema.nullable(),
    status: scheduleStatusSchema,
    paused_reason: z.string().nullable().openapi({
      description:
        "`key_revoked`, `key_expired` or `key_budget_exceeded` of its key; otherwise a sentence for the owner",
    }),
    next_run_at: instantSchema.nullable(),
    upcoming_runs: z.array(upcomingRunSchema),
    api_key_id: uuidSchema.nullable().openapi({
      description:
        "the API key that enabled it, resumed it or changed its task last; its budget covers the runs. Null: the console",
    }),
    consecutive_failures: z.number().int(),
    created_at: instantSchema,
    updated_at: instantSchema,
  })
  .openapi("Schedule");
export type ScheduleRecord = z.infer<typeof scheduleSchema>;

const routes = routesOf("Schedules");

export const listSchedules = routes.get("/api/v1/agents/{id}/schedules", {
  summary: "The agent's schedules, oldest first",
  scope: "agents:read",
  query: longListQuerySchema,
  answers: { 200: json(pageSchema({ schedules: scheduleSchema }), "a page of schedules") },
});

export const createSchedule = routes.post("/api/v1/agents/{id}/schedules", {
  summary: "Add a schedule to the agent",
  description:
    "`daily` needs times, `weekly` times and days_of_week, `monthly` times, `cron` cron, `once` run_at. " +
    "It runs the schedule's run_prompt or the agent's, with its input. Its runs count against the key that creates it.",
  scope: "agents:write",
  body: createScheduleSchema,
  answers: { 201: json(scheduleSchema, "the schedule") },
  fails: [409],
});

export const getSchedule = routes.get("/api/v1/agents/{id}/schedules/{schedule_id}", {
  summary: "One schedule",
  scope: "agents:read",
  answers: { 200: json(scheduleSchema, "the schedule") },
});

export const updateSchedule = routes.patch("/api/v1/agents/{id}/schedules/{schedule_id}", {
  summary: "Change the fields given; the others stay",
  description:
    "Another interval drops the fields that it does not have. A paused schedule stays paused, unless the change turns it on. " +
    "A change of more than the name has its runs count against the key that wrote it.",
  scope: "agents:write",
  body: patchScheduleSchema,
  answers: { 200: json(scheduleSchema, "the schedule as it is now") },
  fails: [409],
});

export const deleteSchedule = routes.delete("/api/v1/agents/{id}/schedules/{schedule_id}", {
  summary: "Delete a schedule and its occurrences; its runs stay",
  scope: "agents:write",
  answers: { 204: { description: "deleted" } },
});

export const pauseSchedule = routes.post("/api/v1/agents/{id}/schedules/{schedule_id}/pause", {
  summary: "Pause a schedule: its due instants are recorded as skipped",
  scope: "agents:write",
  optional_body: noFields,
  answers: { 200: json(scheduleSchema, "the schedule as it is now") },
});

export const resumeOneSchedule = routes.post("/api/v1/agents/{id}/schedules/{schedule_id}/resume", {
  summary: "Resume a paused schedule",
  description:
    "Its runs then count against the key that resumed it, and `consecutive_failures` restarts at 0. A schedule that is off stays off.",
  scope: "agents:write",
  optional_body: noFields,
  answers: { 200: json(scheduleSchema, "the schedule as it is now") },
});

export const runSchedule = routes.post("/api/v1/agents/{id}/schedules/{schedule_id}/run", {
  summary: "Run the schedule's task now, with its input",
  scope: "agents:write",
  optional_body: noFields,
  headers: preferHeader,
  answers: startedRunAnswers,
  fails: [402, 409],
});

const occurrenceState = z.enum(["run", "skipped", "missed"]);
const occurrenceSchema = z
  .object({
    at: instantSchema.openapi({ description: "the due instant" }),
    state: occurrenceState,
    scheduled_for: instantSchema.openapi({ description: "the same as `at`, by the name that runs give it" }),
    status: occurrenceState.openapi({ description: "the same as `state`, by the name that runs give it" }),
    schedule_id: uuidSchema,
    reason: z.string().nullable().openapi({
      description:
        "in words for its owner: why it was late, skipped (since when it is paused and why, which run was still going) or missed",
    }),
    run_id: uuidSchema.nullable(),
    run: runOutcomeSchema,
    recorded_at: instantSchema,
  })
  .openapi("Occurrence");
export type OccurrenceRecord = z.infer<typeof occurrenceSchema>;

export const listOccurrences = routes.get("/api/v1/agents/{id}/occurrences", {
  summary: "What became of each due instant, newest first: why didn't it run?",
  scope: "agents:read",
  query: listQuerySchema.extend({
    schedule_id: z.uuid().optional().openapi({ description: "of this schedule only" }),
  }),
  answers: { 200: json(pageSchema({ occurrences: occurrenceSchema }), "a page of occurrences") },
});
