import type { AgentRecord } from "../contract/agents.ts";
import type { RunRecord } from "../contract/runs.ts";
import { secretsReferred } from "../contract/tools.ts";
import type { Instant } from "../platform/db.ts";
import { upcomingRuns } from "../schedules/due.ts";
import type { ScheduleState } from "../schedules/schedules.service.ts";
import { scheduleOf } from "./agent-config.ts";
import type { AgentRow } from "./agents.store.ts";

/** contract 6: the number of entries in `upcoming_runs`. */
const UPCOMING = 5;

/** The agent as callers see it: its configuration, its schedule's state and its last run. */
export function agentRecord(
  row: AgentRow,
  { schedule, last_run, now }: { schedule: ScheduleState | undefined; last_run: RunRecord | undefined; now: Instant },
): AgentRecord {
  const { user_id: _user, deleted_at: _deleted, ...shown } = row;
  const spec = scheduleOf(row);
  const next_run_at = schedule?.next_run_at ?? null;
  const upcoming_runs = spec === null || next_run_at === null ? [] : upcomingRuns({ spec, next_run_at }, now, UPCOMING);
  const paused_reason = schedule?.paused_reason ?? null;
  return {
    ...shown,
    next_run_at: upcoming_runs[0]?.at ?? null,
    upcoming_runs,
    schedule_status: spec === null ? "off" : paused_reason === null ? "active" : "paused",
    schedule_paused_reason: spec === null ? null : paused_reason,
    last_run:
      last_run === undefined ? null : { id: last_run.id, status: last_run.status, finished_at: last_run.finished_at },
    secrets_used: [...new Set(secretsReferred(row.tools_config).map(({ name }) => name))],
  };
}
