import { addSeconds } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { listUpcoming, next, type ScheduleSpec, type UpcomingRun } from "./spec.ts";

/** contract 6: after a downtime the latest missed instant still runs if it is less than this old. */
const CATCH_UP_HOURS = 12;
/** A delay beyond this means that the service was down. Otherwise an instant is settled within a second or two. */
const LATE_MS = 60_000;
/** Instants of one schedule settled in one transaction. A year's downtime of a daily schedule fits. */
const MAX_DUE = 400;

/** The largest shift of clocks by a change of a zone's rules. */
const MOST_MOVED_HOURS = 3;

/** Why a schedule is paused, and since when if that is known. */
export interface Pause {
  readonly reason: string;
  readonly since: Instant | null;
}

/** A schedule whose next run is due. */
export interface DueSchedule {
  readonly spec: ScheduleSpec;
  readonly next_run_at: Instant;
  readonly paused: Pause | null;
  /** The agent's unfinished run, chats excepted. */
  readonly busy_run_id: string | null;
}

/** The outcome of one due instant, unless the agent declines the run. The owner reads `reason`. */
export interface DueInstant {
  at: Instant;
  state: "run" | "skipped" | "missed";
  reason: string | null;
}

/**
 * Decides all due instants, oldest first, and the next run; null: the schedule has ended. At most the last instant becomes
 * a run.
 */
export function decideDue(
  schedule: DueSchedule,
  now: Instant,
): { instants: DueInstant[]; next_run_at: Instant | null } {
  const come: Instant[] = [];
  let next_run_at: Instant | null = findPlanned(schedule);
  while (next_run_at !== null && next_run_at <= now && come.length < MAX_DUE) {
    come.push(next_run_at);
    next_run_at = next(schedule.spec, next_run_at);
  }
  const last = next_run_at === null || next_run_at > now ? come.pop() : undefined;
  const latest = last === undefined ? null : decideLatest(schedule, last, now);
  const instants = come.map((at) => decideEarlier(schedule, at, latest));
  return { instants: latest === null ? instants : [...instants, latest], next_run_at };
}

/**
 * The schedule's next run by the present rules of its zone, which a new release may have changed since it was computed.
 * An instant that was 09:00 and is now 08:00 is not due yet; otherwise the agent would run again at 09:00.
 */
function findPlanned({ spec, next_run_at }: Pick<DueSchedule, "spec" | "next_run_at">): Instant {
  if (next(spec, addSeconds(next_run_at, -1)) === next_run_at) return next_run_at;
  const moved_s = MOST_MOVED_HOURS * 3600;
  const distance = (at: Instant) => Math.abs(Date.parse(at) - Date.parse(next_run_at));
  let nearest: Instant | null = null;
  let at = next(spec, addSeconds(next_run_at, -moved_s - 1));
  while (at !== null && at <= addSeconds(next_run_at, moved_s)) {
    if (nearest === null || distance(at) < distance(nearest)) nearest = at;
    at = next(spec, at);
  }
  return nearest ?? next_run_at;
}

/** The next `count` runs, fewer if the schedule ends. The first is `findPlanned`, even if it is due and no tick has settled it yet. */
export function listUpcomingRuns(
  schedule: Pick<DueSchedule, "spec" | "next_run_at">,
  now: Instant,
  count: number,
): UpcomingRun[] {
  const at = findPlanned(schedule);
  const runs = listUpcoming(schedule.spec, now, count);
  return runs[0]?.at === at ? runs : [{ at }, ...listUpcoming(schedule.spec, at, count - 1)];
}

/** Decides an instant before the latest due one. A pause that began after the instant is not its reason. */
function decideEarlier({ paused }: DueSchedule, at: Instant, latest: DueInstant | null): DueInstant {
  if (paused !== null && (paused.since === null || paused.since <= at)) return toSkipped(paused, at);
  const why =
    latest?.state === "run" ? `only the latest missed time runs: ${latest.at}` : "a later due time had already passed";
  return { at, state: "missed", reason: `the service was down; ${why}` };
}

function decideLatest({ paused, busy_run_id }: DueSchedule, at: Instant, now: Instant): DueInstant {
  if (paused !== null) return toSkipped(paused, at);
  const late_ms = Date.parse(now) - Date.parse(at);
  if (late_ms >= CATCH_UP_HOURS * 3_600_000) {
    const reason = `the service was down for ${CATCH_UP_HOURS} hours or more: runs missed for so long are not started`;
    return { at, state: "missed", reason };
  }
  if (busy_run_id !== null) return { at, state: "skipped", reason: `previous run still going: ${busy_run_id}` };
  return { at, state: "run", reason: late_ms < LATE_MS ? null : "late: the service was down" };
}

function toSkipped({ reason, since }: Pause, at: Instant): DueInstant {
  return { at, state: "skipped", reason: `paused${since === null ? "" : ` since ${since}`}: ${reason}` };
}
