import type { ScheduleRecord } from "../../api/contract/schedules.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { listUpcomingRuns } from "../schedules/due.ts";
import type { ScheduleRow, ScheduleState } from "../schedules/schedules.service.ts";
import type { UpcomingRun } from "../schedules/spec.ts";
import { toSpec } from "../schedules/spec-fields.ts";

/** Schedules as callers see them. */

/** contract 6: the number of entries in `upcoming_runs`. */
const UPCOMING = 5;

/** The state of a schedule. `is_active`: whether its agent is enabled. */
export function statusOf(
  { enabled, next_run_at, paused_reason }: Pick<ScheduleState, "enabled" | "next_run_at" | "paused_reason">,
  is_active: boolean,
): ScheduleRecord["status"] {
  if (!enabled || !is_active) return "off";
  if (next_run_at === null) return "ended";
  return paused_reason === null ? "active" : "paused";
}

/** The next runs of a schedule that is active or paused. */
function listRuns({ spec, next_run_at }: ScheduleState, now: Instant): UpcomingRun[] {
  return next_run_at === null ? [] : listUpcomingRuns({ spec: toSpec(spec), next_run_at }, now, UPCOMING);
}

/** The next runs of an agent by all its schedules, soonest first. Paused schedules count only if all are paused. */
export function listRunsOfAgent(schedules: readonly ScheduleState[], now: Instant): UpcomingRun[] {
  const active = schedules.filter(({ next_run_at, paused_reason }) => next_run_at !== null && paused_reason === null);
  return (active.length > 0 ? active : schedules)
    .flatMap((schedule) => listRuns(schedule, now))
    .sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0))
    .slice(0, UPCOMING);
}

/** The schedule as callers see it. While it is off, the default one may lack fields beside its interval. */
export function scheduleRecord(
  row: ScheduleRow,
  { is_active, now }: { is_active: boolean; now: Instant },
): ScheduleRecord {
  const { spec } = row;
  const { interval } = spec;
  if (interval === undefined) throw new Error("a schedule that was never set");
  const status = statusOf(row, is_active);
  const upcoming_runs = listRuns(row, now);
  return {
    id: row.id,
    agent_id: row.agent_id,
    name: row.name,
    interval,
    times: spec.times === undefined ? null : [...spec.times],
    days_of_week: spec.days_of_week === undefined ? null : [...spec.days_of_week],
    day_of_month: spec.day_of_month ?? null,
    cron: spec.cron ?? null,
    run_at: spec.run_at ?? null,
    timezone: spec.timezone,
    starts_at: spec.starts_at ?? null,
    ends_at: spec.ends_at ?? null,
    input: row.input,
    run_prompt: row.run_prompt,
    deliveries: row.deliveries === null ? null : [...row.deliveries],
    enabled: row.enabled,
    status,
    paused_reason: status === "paused" ? row.paused_reason : null,
    next_run_at: upcoming_runs[0]?.at ?? null,
    upcoming_runs,
    api_key_id: row.api_key_id,
    consecutive_failures: row.consecutive_failures,
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}
