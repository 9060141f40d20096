import { addSeconds } from "../platform/clock.ts";
import type { Instant } from "../platform/db.ts";
import { nextRun, type ScheduleSpec } from "./next-run.ts";

/** contract 6: the latest instant missed in a downtime still runs when it is less than this old. */
const CATCH_UP_HOURS = 12;
/** Instants of one schedule settled in one go; a year's downtime of a daily schedule fits. */
const MAX_DUE = 400;

/** No change of a zone's rules moves its clocks further. */
const MOST_MOVED_HOURS = 3;

/** A schedule whose next run has come. */
export interface DueSchedule {
  readonly spec: ScheduleSpec;
  readonly next_run_at: Instant;
  readonly paused_reason: string | null;
  /** A run of the agent, a chat excepted, has not finished. */
  readonly busy: boolean;
}

/** What becomes of one due instant, unless the agent itself declines the run. */
export interface DueInstant {
  at: Instant;
  state: "run" | "skipped" | "missed";
  reason: string | null;
}

/** What becomes of every instant that has come, oldest first, at most the last of them a run; and what comes next. */
export function decideDue(schedule: DueSchedule, now: Instant): { instants: DueInstant[]; next_run_at: Instant } {
  const come: Instant[] = [];
  let next_run_at = planned(schedule);
  while (next_run_at <= now && come.length < MAX_DUE) {
    come.push(next_run_at);
    next_run_at = nextRun(schedule.spec, next_run_at);
  }
  const instants = come.map((at): DueInstant => {
    if (schedule.paused_reason !== null) return { at, state: "skipped", reason: "paused" };
    const is_latest = next_run_at > now && at === come.at(-1);
    if (!is_latest)
      return { at, state: "missed", reason: "the service was down; a later instant had come when it was back" };
    return decideLatest(schedule, at, now);
  });
  return { instants, next_run_at };
}

/**
 * The schedule's next run. It was worked out when the one before it came; since then a new version of the service may have
 * brought other rules for the zone. What was 09:00 then and is 08:00 now is not due yet: run, it would run again at 09:00.
 */
function planned({ spec, next_run_at }: DueSchedule): Instant {
  const moved_s = MOST_MOVED_HOURS * 3600;
  const named = nextRun(spec, addSeconds(next_run_at, -moved_s - 1));
  return named <= addSeconds(next_run_at, moved_s) ? named : next_run_at;
}

function decideLatest(schedule: DueSchedule, at: Instant, now: Instant): DueInstant {
  const age_hours = (Date.parse(now) - Date.parse(at)) / 3_600_000;
  if (age_hours >= CATCH_UP_HOURS) {
    return { at, state: "missed", reason: `the service was down for ${CATCH_UP_HOURS} hours or more` };
  }
  if (schedule.busy) return { at, state: "skipped", reason: "previous run still going" };
  return { at, state: "run", reason: null };
}
