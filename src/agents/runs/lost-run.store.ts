import type { RunError, RunStatus } from "../../api/contract/runs.ts";
import type { Sql } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import { DUE_INPUT, ENDED_STEPS, type EndedRow, OPEN_STEPS, type OpenRow, worked } from "./run.store.ts";
import { STATUS_OF_ONE, sqlBefore, sqlList, sqlNext, UNFINISHED } from "./run-state.ts";
import type { CancelledRun } from "./runs.types.ts";

/** Runs of lost workers: queued again, cancelled or failed. */

/** Runs returned to the queue in one statement. */
const REAP_BATCH = 500;

/** Selects the leases that count as lost. */
export interface Reaping {
  /** A run fails after this many losses in a row without a finished step in between. */
  max_losses: number;
  lease_ms: number;
  /** Also unexpired leases, because their worker is known to have ended. */
  unexpired: boolean;
  /** Runs that this node's worker executes. Its heartbeat may be late, but it is not lost. */
  at_work: readonly string[];
  /** A lease counts as expired only if it also ended before this time, in milliseconds; null for `unexpired`. */
  judged_at_ms: number | null;
  now: Instant;
}

/** Leases that ended before this time are lost. */
const LOST_BEFORE = `least(to_timestamp($2::float8 / 1000), case when $1 then 'infinity' else clock_timestamp() end)`;
/** Each run is looked up by its key, so the plan does not depend on statistics (README.md, "Plans"). */
const lostRuns = (condition: string, at_work: string, lock = "") => `expired_leases(${LOST_BEFORE}) as expired
  cross join lateral (
    select * from run where user_id = expired.user_id and id = expired.id and ${STATUS_OF_ONE} in ${sqlList(UNFINISHED)}
      and lease_until < ${LOST_BEFORE} and ${condition}
      and id not in (select value::uuid from jsonb_array_elements_text(${at_work}::jsonb)) limit 1 ${lock}
  ) as run
  limit ${REAP_BATCH}`;
/** A run can only have caused its worker's loss while one of its steps is running. Other runs only waited beside it. */
const AT_WORK = `exists (select from run_step step
  where step.user_id = run.user_id and step.run_id = run.id and step.status = 'running')::integer`;
/** The limit of a run's attempts, for any cause of loss. */
const MAX_ATTEMPTS = 20;
/**
 * Runs that fail instead of being retried. A chat fails at once because its caller was connected to the lost worker.
 */
const GIVEN_UP = `status in ${sqlBefore("give_up")} and (trigger = 'chat' or losses + ${AT_WORK} >= $3 or attempt >= ${MAX_ATTEMPTS})`;

/**
 * Takes runs from lost workers and queues them as the next attempt. A run that was being cancelled is cancelled, and so
 * is a run whose reserved worker did not claim it.
 *
 * `failLostRun` handles runs that must fail. Returns the cancelled runs, and whether there may be more to take.
 */
export async function reapRuns(sql: Sql, reaping: Reaping): Promise<{ cancelled: CancelledRun[]; has_more: boolean }> {
  const { max_losses, lease_ms, unexpired, at_work, judged_at_ms, now } = reaping;
  const rows = await sql.query<CancelledRun & { status: RunStatus }>({
    text: `with lost as materialized (
        select run.user_id, run.id, ${AT_WORK} as at_work, ${sqlNext("reap", "status")} as outcome
        from ${lostRuns(`not (${GIVEN_UP})`, "$6", "for update skip locked")}
      ), ended as (
        update run set status = outcome, worker_id = null, lease_until = null,
          attempt = attempt + case outcome when 'queued' then 1 else 0 end,
          losses = losses + case outcome when 'queued' then at_work else 0 end,
          worked_ms = worked_ms + ${worked("lease_until - make_interval(secs => $4 / 1000.0)")},
          finished_at = case when outcome <> 'queued' then $5::timestamptz end
        from lost where run.user_id = lost.user_id and run.id = lost.id
        returning run.*
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, trigger, status, error from ended`,
    values: [unexpired, judged_at_ms, max_losses, lease_ms, now, JSON.stringify(at_work)],
  });
  return { cancelled: rows.filter(({ status }) => status === "cancelled"), has_more: rows.length === REAP_BATCH };
}

/** Lost runs that must fail because they may not be retried. */
export async function selectGivenUp(sql: Sql, reaping: Reaping): Promise<OpenRow[]> {
  const { unexpired, judged_at_ms, max_losses, at_work } = reaping;
  return sql.query<OpenRow>({
    text: `select run.user_id, run.id as run_id, agent_id, trigger, epoch from ${lostRuns(GIVEN_UP, "$4")}`,
    values: [unexpired, judged_at_ms, max_losses, JSON.stringify(at_work)],
  });
}

/** Fails a lost run that may not be retried, unless it has ended or a worker holds a valid lease on it. */
export async function failLostRun(
  sql: Sql,
  run: OpenRow,
  { unexpired, judged_at_ms, now }: Reaping,
  error: RunError,
): Promise<EndedRow[]> {
  return sql.query<EndedRow>({
    text: `with ended as (
        update run set status = ${sqlNext("give_up")}, worker_id = null, lease_until = null, error = $6::jsonb, finished_at = $7::timestamptz,
          failed_steps = run.failed_steps + ${OPEN_STEPS}
        where user_id = $3 and id = $4 and epoch = $5 and ${STATUS_OF_ONE} in ${sqlBefore("give_up")} and lease_until < ${LOST_BEFORE} returning run.*, ${DUE_INPUT}
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, trigger, status, error, epoch, failed_steps, failed_calls, due_input from ended`,
    values: [unexpired, judged_at_ms, run.user_id, run.run_id, run.epoch, jsonbText(error), now],
  });
}
