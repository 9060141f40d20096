import { errors } from "../../kernel/errors.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { stableJson } from "../../platform/lib/json.ts";
import type { ScheduleRow } from "../schedules/schedules.service.ts";
import { type FieldNames, requireRuns, toSpec } from "../schedules/spec-fields.ts";
import { scheduleKeyAfter } from "./schedule-key.ts";

/** What a write makes of a schedule. Pure. */

/** `paused_reason` of a schedule that its owner has paused. */
export const PAUSED_BY_OWNER = "paused by its owner";

/** A write of a schedule or of its agent. */
export interface ScheduleWrite {
  /** The write resumes the schedule, also if it is enabled already. */
  resumes: boolean;
  /** The settings of its agent do the same as before. */
  is_same_task: boolean;
  caller_key_id: string | null;
  /** The agent's, which applies where the schedule has none. */
  run_prompt: string | null;
  /** The least time between two runs. */
  min_minutes: number;
  now: Instant;
  names?: FieldNames;
}

/** A schedule with everything that its user does not set. Null: it is new. Throws 400 for one that could not run. */
export function writtenSchedule(before: ScheduleRow | null, after: ScheduleRow, write: ScheduleWrite): ScheduleRow {
  const { is_same_task, caller_key_id, now } = write;
  const enables = after.enabled && before?.enabled !== true;
  const is_same_time = before !== null && stableJson(before.spec) === stableJson(after.spec);
  if (after.enabled) {
    if ((after.run_prompt ?? write.run_prompt ?? "").trim() === "") {
      throw errors.missingField("run_prompt", "It says what a scheduled run does.");
    }
    if (enables || !is_same_time) requireRuns(toSpec(after.spec, write.names), write, write.names);
  }
  const resumes = write.resumes || enables;
  const api_key_id = scheduleKeyAfter({
    enabled: after.enabled,
    resumes,
    is_same_task: is_same_task && is_same_time && before !== null && isSame(before, after, ["input", "run_prompt"]),
    before_key_id: before?.api_key_id ?? null,
    caller_key_id,
  });
  const is_same =
    before !== null && isSame(before, after, ["name", "spec", "input", "run_prompt", "deliveries", "enabled"]);
  return {
    ...after,
    api_key_id,
    updated_at: is_same ? before.updated_at : now,
    ...(resumes ? { paused_reason: null, paused_at: null, resume_above: null, consecutive_failures: 0 } : {}),
  };
}

function isSame(one: ScheduleRow, other: ScheduleRow, fields: readonly (keyof ScheduleRow)[]): boolean {
  return fields.every((name) => stableJson(one[name]) === stableJson(other[name]));
}
