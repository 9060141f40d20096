import { WEEKDAYS } from "../../kernel/constants.ts";
import { instantSchema, json, listQuerySchema, uuidSchema } from "./common.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { runSchema } from "./runs.ts";
import { z } from "./zod.ts";

/** Schedules and their occurrences: contract 6. The schedule itself is set through the agent's fields. */

export const intervalSchema = z.enum(["daily", "weekly", "monthly"]);
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

const occurrenceState = z.enum(["run", "skipped", "missed"]);
const occurrenceSchema = z
  .object({
    at: instantSchema.openapi({ description: "the due instant" }),
    state: occurrenceState,
    scheduled_for: instantSchema.openapi({ description: "the same as `at`, by the name that runs give it" }),
    status: occurrenceState.openapi({ description: "the same as `state`, by the name that runs give it" }),
    reason: z.string().nullable().openapi({
      description:
        "in words for its owner: why it was late, skipped (since when it is paused and why, which run was still going) or missed",
    }),
    run_id: uuidSchema.nullable(),
    run: runSchema
      .pick({ status: true, has_errors: true })
      .nullable()
      .openapi({ description: "what became of its run; null without one, and once the run is deleted" }),
    recorded_at: instantSchema,
  })
  .openapi("Occurrence");
export type OccurrenceRecord = z.infer<typeof occurrenceSchema>;

const routes = routesOf("Agents");

export const listOccurrences = routes.get("/api/v1/agents/{id}/occurrences", {
  summary: "What became of each due instant, newest first: why didn't it run?",
  scope: "agents:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ occurrences: occurrenceSchema }), "a page of occurrences") },
});
