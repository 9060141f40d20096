import type { RunError, RunStatus, RunTrigger } from "../../api/contract/runs.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import { CLAIMED, STATUS_OF_ONE, sqlList, sqlNext } from "./run-state.ts";
import type {
  ClaimLimits,
  EndedRun,
  EndingRun,
  LeaseState,
  NewRun,
  RunFinish,
  RunLease,
  RunNowStatements,
  StepFinish,
  StepStart,
} from "./runs.types.ts";

/** Writes to runs and their steps. Every write under a lease names its epoch and changes nothing under an old one. */

const BEGIN_RUNS = readStatement(import.meta.dirname, "begin-runs");
/** A lower number is claimed first: a caller waits for a chat, and no caller waits for a scheduled run. */
const PRIORITY: Record<RunTrigger, number> = { chat: 0, manual: 1, schedule: 2 };

export interface RunRow {
  user_id: string;
  id: string;
  agent_id: string;
  agent_version: number;
  trigger: RunTrigger;
  status: RunStatus;
  scheduled_for: Instant | null;
  queued_at: Instant;
  started_at: Instant | null;
  finished_at: Instant | null;
  attempt: number;
  model_id: string | null;
  routing: Record<string, unknown> | null;
  input_tokens: number;
  output_tokens: number;
  cost_tokens: number;
  steps_count: number;
  failed_steps: number;
  /** Failed calls of tools, and tools' servers that were not usable. */
  failed_calls: number;
  error: RunError | null;
}

/** A claimed run: its row and what the engine needs. */
export interface ClaimedRow extends RunRow {
  epoch: number;
  worked_ms: number;
  input: unknown;
}

/** The columns of a run's record. */
export const RUN_COLUMNS = `user_id, id, agent_id, agent_version, trigger, status, scheduled_for, queued_at, started_at,
  finished_at, attempt, model_id, routing, input_tokens, output_tokens, cost_tokens, steps_count, failed_steps, failed_calls, error`;

/**
 * Ends the open steps of ended runs. A step's error is its intent's error for a call that was cut off, or the run's
 * error.
 */
export const ENDED_STEPS = `update run_step set finished_at = ended.finished_at,
    error = coalesce(run_step.error, run_step.internal->'if_cut_off', ended.error),
    status = case ended.status when 'failed' then 'failed' else 'cancelled' end
  from ended where run_step.user_id = ended.user_id and run_step.run_id = ended.id and run_step.status = 'running'
    and ended.finished_at is not null`;

/** The number of a run's open steps, which fail with it. */
export const OPEN_STEPS = `(select count(*) from run_step as open
  where open.user_id = run.user_id and open.run_id = run.id and open.finished_at is null)::integer`;

/** Milliseconds from the claim to an instant. */
export const worked = (until: string) => `greatest(0, extract(epoch from ${until} - run.claimed_at) * 1000)::bigint`;

/**
 * A run to insert. With `reserved`, only that worker may claim it, and it is cancelled if the worker does not claim it
 * in time.
 */
export interface RunInsert extends NewRun {
  id: string;
  trigger: RunTrigger;
  scheduled_for: Instant | null;
  reserved: { worker_id: string; for_ms: number } | null;
}

/** `limited_key` and `key_limit` of a run, by the terms of the API key in its input. */
const LIMITED_KEY = `case when input #>> '{key_limits,concurrent_runs}' is not null then (input ->> 'api_key_id')::uuid end,
        (input #>> '{key_limits,concurrent_runs}')::integer`;

export async function insertRuns(sql: Sql, runs: readonly RunInsert[], now: Instant): Promise<void> {
  // A claim of reserved runs reads only those of the first priority (claim_runs).
  const priorityOf = ({ reserved, trigger }: RunInsert) => (reserved === null ? PRIORITY[trigger] : PRIORITY.chat);
  const rows = runs.map((run) => ({ ...run, ...run.reserved, reserved: undefined, priority: priorityOf(run) }));
  await sql.query({
    name: "run_insert",
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, scheduled_for, queued_at, model_id, input, priority, worker_id, lease_until,
        limited_key, key_limit)
      select user_id, id, agent_id, agent_version, trigger, scheduled_for, $2::timestamptz, model_id, input, priority, worker_id,
        clock_timestamp() + make_interval(secs => for_ms / 1000.0), ${LIMITED_KEY}
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, id uuid, agent_id uuid, agent_version integer, trigger text,
        scheduled_for timestamptz, model_id text, input jsonb, priority smallint, worker_id text, for_ms integer)`,
    values: [jsonbText(rows), now],
  });
}

/** Inserts run-nows while their users have fewer than `most` in the queue. Returns the ids of the inserted runs. */
export async function insertManualRuns(
  sql: Sql,
  runs: readonly (NewRun & { id: string })[],
  most: number,
  now: Instant,
): Promise<{ id: string }[]> {
  return sql.query({
    name: "run_insert_manual",
    text: `with given as materialized (
        select *, row_number() over (partition by user_id order by id) as nth
        from jsonb_to_recordset($1::jsonb) as given(user_id uuid, id uuid, agent_id uuid, agent_version integer, model_id text, input jsonb)
      ), waiting as materialized (
        select user_id, count_queued_run_nows(user_id, $2) as runs from given where nth = 1
      )
      insert into run (user_id, id, agent_id, agent_version, trigger, queued_at, model_id, input, priority, limited_key, key_limit)
      select user_id, id, agent_id, agent_version, 'manual', $3::timestamptz, model_id, input, ${PRIORITY.manual}, ${LIMITED_KEY}
      from given join waiting using (user_id) where waiting.runs + nth <= $2
      returning id`,
    values: [jsonbText(runs), most, now],
  });
}

/** The reason why each run-now is rejected, in order; null: it may be queued. */
export async function checkRunNows(
  tx: Tx,
  { check }: RunNowStatements,
  runs: readonly NewRun[],
  now: Instant,
): Promise<(string | null)[]> {
  const [row] = await tx.query<{ refusals: (string | null)[] }>({
    name: "run_check",
    text: check,
    values: [jsonbText(runs), now],
  });
  return row?.refusals ?? [];
}

/**
 * Begins run-nows with a worker of this node in one round trip. Returns, in order, why each is rejected or null; null
 * for the batch: too few free places beside the queue, and nothing was written.
 *
 * If all callers of the batch wait for the ends of their runs, it does not wait for the disk: the charge of the first
 * model call makes both durable.
 */
export async function beginRunNows(
  sql: Sql,
  runs: readonly (NewRun & { id: string })[],
  beginning: Omit<Claiming, "reserved_only"> & { statements: RunNowStatements | null },
): Promise<(string | null)[] | null> {
  const { statements, worker_id, most, limits, lease_ms, now } = beginning;
  const rows = runs.map(({ is_awaited: _, ...run }) => ({ ...run, priority: PRIORITY.manual }));
  const places = [worker_id, most, limits.concurrent_runs, limits.concurrent_runs_per_user];
  const is_quiet = runs.every(({ is_awaited }) => is_awaited === true);
  const [row] = await sql.query<{ refusals: (string | null)[] | null }>({
    name: "run_begin",
    hot_path: true,
    text: statements?.begin ?? BEGIN_RUNS,
    values: [jsonbText(rows), now, ...places, lease_ms, is_quiet, plansText(limits)],
  });
  return row?.refusals ?? null;
}

/** Notifies the workers of all nodes, when the transaction commits, that there are runs to claim. */
export async function notifyQueued(tx: Tx): Promise<void> {
  await tx.query({ name: "run_tell_queued", text: "select pg_notify('run_queued', '')" });
}

const plansText = ({ concurrent_runs_of_plans: of_plans }: ClaimLimits) =>
  of_plans === undefined ? null : JSON.stringify(of_plans);

/** A claim: the worker and its free places. */
interface Claiming {
  worker_id: string;
  most: number;
  limits: ClaimLimits;
  reserved_only: boolean;
  lease_ms: number;
  now: Instant;
}

export async function claimRuns(sql: Sql, claim: Claiming): Promise<ClaimedRow[]> {
  const { worker_id, most, limits, reserved_only, lease_ms, now } = claim;
  return sql.query<ClaimedRow>({
    name: "run_claim",
    text: `select ${RUN_COLUMNS}, epoch, worked_ms, input from claim_runs($1, $2, $3, $4, $5, $6, $7, $8) order by priority, id`,
    values: [
      ...[worker_id, most, limits.concurrent_runs, limits.concurrent_runs_per_user, lease_ms, now, reserved_only],
      plansText(limits),
    ],
  });
}

export async function hasQueued(sql: Sql): Promise<boolean> {
  const [found] = await sql.query<{ has_queued: boolean }>({
    name: "run_has_queued",
    text: "select has_queued_runs() as has_queued",
  });
  return found?.has_queued === true;
}

/** The limit tells the planner how many leases there are. Otherwise it expects 100 and prefers to scan the runs. */
const GIVEN_LEASES = `(
    select * from jsonb_to_recordset($1::jsonb) as given(user_id uuid, run_id uuid, epoch integer) limit $3
  ) as mine`;
const OWNED = `run.user_id = mine.user_id and run.id = mine.run_id and run.epoch = mine.epoch
  and ${STATUS_OF_ONE} in ${sqlList(CLAIMED)}`;

/**
 * Renews the valid leases and returns them. It never waits for a lock, so it cannot deadlock with a batch of settles
 * that record steps; the next heartbeat renews a run that is locked now.
 */
export async function renewLeases(sql: Sql, leases: readonly RunLease[], lease_ms: number) {
  return sql.query<{ run_id: string; epoch: number; status: Exclude<LeaseState, "lost"> }>({
    text: `with free as materialized (
        select run.user_id, run.id from run join ${GIVEN_LEASES} on ${OWNED} for update of run skip locked
      ), renewed as (
        update run set lease_until = clock_timestamp() + make_interval(secs => $2 / 1000.0)
          from free where run.user_id = free.user_id and run.id = free.id
      )
      select run.id as run_id, run.epoch, run.status from run join ${GIVEN_LEASES} on ${OWNED}`,
    values: [jsonbText(leases), lease_ms, leases.length],
  });
}

/** The start of a step, under a lease. */
export interface StartedStep {
  lease: RunLease;
  step: StepStart;
  now: Instant;
}

/**
 * Writes the intents of steps, again if a resumed run repeats one. Nothing is written for a run that is being
 * cancelled.
 *
 * The intent of a tool call is on the disk before the answer, because a lost worker's call could be repeated outside. A
 * batch of model calls does not wait for the disk.
 */
export async function startSteps(sql: Sql, starts: readonly StartedStep[]): Promise<LeaseState[]> {
  const is_quick = starts.every(({ step }) => step.type === "model");
  const [row] = await sql.query<{ answers: { state: LeaseState }[] }>({
    name: "step_start",
    text: `select start_steps($1::jsonb) as answers, case when $2 then set_config('synchronous_commit', 'off', true) end`,
    values: [jsonbText(starts.map(startStepArgument)), is_quick],
  });
  return (row?.answers ?? []).map(({ state }) => state);
}

/** The argument of the SQL function `start_steps` for each step. */
export function startStepArgument({ lease, step, now }: StartedStep) {
  return { ...lease, ...step, started_at: now };
}

/**
 * The argument of the SQL function `finish_steps` for each step. A step with `output` is the run's last step and ends
 * the run.
 */
export function finishStepArgument(lease: RunLease, step: StepFinish & { output?: string | null }, now: Instant) {
  return { ...lease, ...step, ends: step.output != null, finished_at: now };
}

/** False: the lease is lost, or the step already has an outcome. */
export async function finishStep(sql: Sql, argument: ReturnType<typeof finishStepArgument>): Promise<boolean> {
  const [row] = await sql.query<{ answers: { done: boolean }[] }>({
    name: "step_finish",
    text: "select finish_steps($1::jsonb) as answers",
    values: [jsonbText([argument])],
  });
  return row?.answers[0]?.done === true;
}

/** The last failed call of a tool in a run. */
export async function selectFailedCall(tx: Tx, { user_id, run_id }: { user_id: string; run_id: string }) {
  const [row] = await tx.query<{ name: string; error: RunError }>({
    name: "step_failed_call",
    text: `select name, error from run_step
      where user_id = $1 and run_id = $2 and type = 'tool' and status = 'failed' and error is not null
      order by index desc limit 1`,
    values: [user_id, run_id],
  });
  return row;
}

/** A running run that is about to end. */
export type OpenRow = Omit<EndingRun, "fails"> & { epoch: number };

/** The end of a run, under a lease. */
export interface FinishedRun {
  lease: RunLease;
  finish: RunFinish;
  now: Instant;
}

/** A run that has ended, as reported to other modules. */
export type EndedRow = EndedRun & { epoch: number };

/**
 * The input of a due run, which decides how the run's end affects the schedule. Other inputs can be large and are not
 * read.
 */
export const DUE_INPUT = "case when run.trigger = 'schedule' then run.input end as due_input";

/**
 * Ends runs and their open steps. A run that was being cancelled ends `cancelled`, with any outcome. A run whose lease
 * is lost is omitted from the result.
 */
export async function finishRuns(sql: Sql, finishes: readonly FinishedRun[]): Promise<EndedRow[]> {
  const given = finishes.map(({ lease, finish, now }) => ({ ...lease, ...finish, finished_at: now }));
  return sql.query<EndedRow>({
    text: `with mine as materialized (
        select * from jsonb_to_recordset($1::jsonb) as mine(user_id uuid, run_id uuid, epoch integer, status text, output text,
          error jsonb, finished_at timestamptz) limit $2
      ), owned as materialized (
        select mine.* from run join mine on ${OWNED} order by run.user_id, run.id for update of run
      ), ended as (
        update run set lease_until = null, finished_at = owned.finished_at, output = owned.output,
          status = case owned.status when 'succeeded' then ${sqlNext("succeed")} when 'failed' then ${sqlNext("fail")} else ${sqlNext("stop")} end,
          error = case run.status when 'cancelling' then run.error else owned.error end,
          failed_steps = run.failed_steps + case when owned.status = 'failed' and run.status <> 'cancelling' then ${OPEN_STEPS} else 0 end
        from owned where run.user_id = owned.user_id and run.id = owned.run_id
        returning run.user_id, run.id, run.agent_id, run.trigger, run.status, run.error, run.epoch, run.finished_at, run.failed_steps, run.failed_calls, ${DUE_INPUT}
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, trigger, status, error, epoch, failed_steps, failed_calls, due_input
      from ended order by user_id, id`,
    values: [jsonbText(given), given.length],
  });
}
