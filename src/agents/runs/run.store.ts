import type { AgentKey } from "../../api/contract/agents.ts";
import type { ResultDelivery } from "../../api/contract/deliveries.ts";
import type { RunData, RunError, RunMetadata, RunStatus, RunTrigger } from "../../api/contract/runs.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { ActionJson } from "./actions.store.ts";
import { PHASE_OF_ONE, sqlBefore, sqlNext, type WaitingStatus } from "./run-state.ts";
import type {
  CancelledRun,
  ClaimLimits,
  EndedRun,
  EndingRun,
  FinalOutput,
  LeaseState,
  NewRun,
  RunFinish,
  RunLease,
  StepFinish,
  StepStart,
} from "./runs.types.ts";
import type { RecordedInput } from "./transcript.ts";

/** Writes to runs and their steps. Every write under a lease names its epoch and changes nothing under an old one. */

const INSERT_RUNS = readStatement(import.meta.dirname, "insert-runs");
/** A lower number is claimed first: a caller waits for a chat, and no caller waits for a scheduled run. */
const PRIORITY: Record<RunTrigger, number> = { chat: 0, manual: 1, test: 1, webhook: 1, schedule: 2 };
/** A chat's caller is connected to its worker's node. It has left a chat that has waited, or that began without it. */
const HAS_CALLER = `(trigger = 'chat' and priority = ${PRIORITY.chat})`;

export interface RunRow {
  user_id: string;
  id: string;
  agent_id: string;
  agent_version: number;
  trigger: RunTrigger;
  status: RunStatus;
  schedule_id: string | null;
  trigger_id: string | null;
  trigger_name: string | null;
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
  metadata: RunMetadata | null;
  /** What it waits for. */
  required_actions: ActionJson[];
}

/** The row of a run with what only its own record shows. */
export type DetailRow = RunRow & {
  input: RunData | null;
  run_prompt: string | null;
  input_safety: unknown;
  output: string | null;
  output_json: unknown;
  deliveries: ResultDelivery[];
  decisions: ActionJson[];
};

/** A claimed run: its row and what the engine needs. */
export interface ClaimedRow extends RunRow {
  epoch: number;
  worked_ms: number;
  has_caller: boolean;
  input: RunData | null;
  run_prompt: string | null;
  engine_input: unknown;
}

/** The columns of a run's record. */
export const RUN_COLUMNS = `user_id, id, agent_id, agent_version, trigger, status, schedule_id, trigger_id, trigger_name, scheduled_for, queued_at, started_at,
  finished_at, attempt, model_id, routing, input_tokens, output_tokens, cost_tokens, steps_count, failed_steps, failed_calls, error, metadata,
  case when status = 'requires_action' then run_actions(user_id, id, true) else '[]' end as required_actions`;
/** What a run began with. */
export const BEGIN_COLUMNS = "input, run_prompt, engine_input";
const CLAIMED_COLUMNS = `${RUN_COLUMNS}, epoch, worked_ms, ${HAS_CALLER} as has_caller, ${BEGIN_COLUMNS}`;

/**
 * Ends the open steps of ended runs. A step's error is its intent's error for a call that was cut off, or the run's
 * error.
 */
export const ENDED_STEPS = `update run_step set finished_at = ended.finished_at,
    error = coalesce(run_step.error, run_step.internal->'if_cut_off', ended.error),
    status = case ended.status when 'failed' then 'failed' else 'cancelled' end
  from ended where run_step.user_id = ended.user_id and run_step.run_id = ended.id and run_step.status = 'running'
    and ended.finished_at is not null`;

/** Ends what cancelled runs waited for. */
const CANCELLED_ACTIONS = `update run_action set decision = 'cancelled', decided_at = ended.finished_at
  from ended where run_action.user_id = ended.user_id and run_action.run_id = ended.id and run_action.decision is null
    and ended.status = 'cancelled'`;

/** The number of a run's open steps, which fail with it. */
export const OPEN_STEPS = `(select count(*) from run_step as open
  where open.user_id = run.user_id and open.run_id = run.id and open.finished_at is null)::integer`;

/** Milliseconds from the claim to an instant. */
export const sqlWorkedMs = (until: string) =>
  `greatest(0, extract(epoch from ${until} - run.claimed_at) * 1000)::bigint`;

/**
 * Inserts runs, but run-nows only while their users have fewer than `max_queued_manual` in the queue. Returns the ids of
 * the inserted runs.
 */
export async function insertRuns(
  sql: Sql,
  runs: readonly (NewRun & { id: string })[],
  { max_queued_manual, now }: { max_queued_manual: number; now: Instant },
): Promise<Set<string>> {
  const rows = runs.map(({ reserved, ...run }) => ({
    user_id: run.user_id,
    id: run.id,
    agent_id: run.agent_id,
    agent_version: run.agent_version,
    trigger: run.trigger,
    schedule_id: run.schedule_id,
    trigger_id: run.trigger_id,
    trigger_name: run.trigger_name,
    scheduled_for: run.scheduled_for,
    model_id: run.model_id,
    input: run.input,
    metadata: run.metadata,
    run_prompt: run.run_prompt,
    engine_input: run.engine_input,
    priority: queuePriority({ ...run, reserved }),
    worker_id: reserved?.worker_id,
    for_ms: reserved?.for_ms,
  }));
  const inserted = await sql.query<{ id: string }>({
    name: "run_insert",
    text: INSERT_RUNS,
    values: [jsonbText(rows), now, max_queued_manual],
  });
  return new Set(inserted.map(({ id }) => id));
}

/** A claim of reserved runs reads only those of the first priority (claim_runs). */
function queuePriority({ trigger, reserved, is_detached }: NewRun): number {
  if (reserved !== undefined) return PRIORITY.chat;
  return is_detached ? PRIORITY.manual : PRIORITY[trigger];
}

/** The reason why each run is rejected, in order; null: it may be queued. */
export async function checkRuns(
  tx: Tx,
  { check, runs, now }: { check: string; runs: readonly NewRun[]; now: Instant },
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
export async function beginRuns(
  sql: Sql,
  runs: readonly (NewRun & { id: string })[],
  beginning: Omit<Claiming, "reserved_only"> & { begin: string },
): Promise<(string | null)[] | null> {
  const { begin, worker_id, most, limits, lease_ms, now } = beginning;
  const rows = runs.map((run) => ({
    user_id: run.user_id,
    id: run.id,
    agent_id: run.agent_id,
    agent_version: run.agent_version,
    schedule_id: run.schedule_id,
    model_id: run.model_id,
    input: run.input,
    metadata: run.metadata,
    run_prompt: run.run_prompt,
    engine_input: run.engine_input,
    first_step: run.first_step,
    precondition: run.precondition,
    priority: PRIORITY.manual,
  }));
  const places = [worker_id, most, limits.concurrent_runs, limits.concurrent_runs_per_user];
  const is_quiet = runs.every(({ is_awaited }) => is_awaited === true);
  const [row] = await sql.query<{ refusals: (string | null)[] | null }>({
    name: "run_begin",
    hot_path: true,
    text: begin,
    values: [jsonbText(rows), now, ...places, lease_ms, is_quiet, encodePlans(limits)],
  });
  return row?.refusals ?? null;
}

/** Notifies the workers of all nodes, when the transaction commits, that there are runs to claim. */
export async function notifyQueued(tx: Tx): Promise<void> {
  await tx.query({ name: "run_tell_queued", text: "select pg_notify('run_queued', '')" });
}

const encodePlans = ({ concurrent_runs_of_plans: of_plans }: ClaimLimits) =>
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
    text: `select ${CLAIMED_COLUMNS} from claim_runs($1, $2, $3, $4, $5, $6, $7, $8) order by priority, id`,
    values: [
      ...[worker_id, most, limits.concurrent_runs, limits.concurrent_runs_per_user, lease_ms, now, reserved_only],
      encodePlans(limits),
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
  and ${PHASE_OF_ONE} = 'working'`;

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
  const { user_id, run_id, epoch } = lease;
  const { index, type, name, internal, call } = step;
  return { user_id, run_id, epoch, index, type, name, arguments: step.arguments, internal, call, started_at: now };
}

/**
 * The argument of the SQL function `finish_steps` for each step. A step with `final` is the run's last step and ends
 * the run; the answer then has the run if it `is_awaited`.
 */
export function finishStepArgument(
  lease: RunLease,
  step: StepFinish,
  now: Instant,
  { final = null, is_awaited = false }: { final?: FinalOutput | null | undefined; is_awaited?: boolean } = {},
) {
  const { user_id, agent_id, run_id, epoch } = lease;
  const { index, status, result, error, safety, usage, internal, chosen } = step;
  return {
    user_id,
    agent_id,
    run_id,
    epoch,
    index,
    status,
    result,
    error,
    safety,
    usage,
    internal,
    chosen,
    output: final?.output,
    output_json: final?.output_json,
    ends: final !== null,
    is_awaited,
    finished_at: now,
  };
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

/** The last failed call of a tool or incomplete answer in a run. */
export async function selectFailedCall(tx: Tx, { user_id, run_id }: { user_id: string; run_id: string }) {
  const [row] = await tx.query<{ name: string; error: RunError }>({
    name: "step_failed_call",
    text: `select name, error from run_step
      where user_id = $1 and run_id = $2 and status = 'failed' and error is not null
        and error->>'code' <> 'call_rejected' and (type = 'tool' or result ? 'finish_reason')
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
 * The engine's input of a due run, which decides how the run's end affects the schedule. Other inputs can be large and are not
 * read.
 */
export const DUE_INPUT = "case when run.trigger = 'schedule' then run.engine_input end as due_input";

/**
 * Ends runs and their open steps. A run that was being cancelled ends `cancelled`, with any outcome. A run whose lease
 * is lost is omitted from the result.
 */
export async function finishRuns(sql: Sql, finishes: readonly FinishedRun[]): Promise<EndedRow[]> {
  const given = finishes.map(({ lease: { user_id, run_id, epoch }, finish, now: finished_at }) => {
    const error = finish.status === "failed" ? finish.error : null;
    const output_json = finish.status === "succeeded" ? finish.output_json : null;
    return { user_id, run_id, epoch, status: finish.status, output: finish.output, output_json, error, finished_at };
  });
  return sql.query<EndedRow>({
    text: `with mine as materialized (
        select * from jsonb_to_recordset($1::jsonb) as mine(user_id uuid, run_id uuid, epoch integer, status text, output text,
          output_json jsonb, error jsonb, finished_at timestamptz) limit $2
      ), owned as materialized (
        select mine.* from run join mine on ${OWNED} order by run.user_id, run.id for update of run
      ), ended as (
        update run set lease_until = null, finished_at = owned.finished_at, output = owned.output, output_json = nullif(owned.output_json, 'null'),
          status = case owned.status when 'succeeded' then ${sqlNext("succeed")} when 'failed' then ${sqlNext("fail")} else ${sqlNext("stop")} end,
          error = case run.status when 'cancelling' then run.error else owned.error end,
          failed_steps = run.failed_steps + case when owned.status = 'failed' and run.status <> 'cancelling' then ${OPEN_STEPS} else 0 end
        from owned where run.user_id = owned.user_id and run.id = owned.run_id
        returning run.user_id, run.id, run.agent_id, run.schedule_id, run.trigger, run.status, run.error, run.epoch, run.finished_at, run.failed_steps, run.failed_calls, ${DUE_INPUT}
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, schedule_id, trigger, status, error, epoch, failed_steps, failed_calls, due_input
      from ended order by user_id, id`,
    values: [jsonbText(given), given.length],
  });
}

/**
 * Selects runs to cancel: one run, or all runs of an agent or a user. `idle_only`: only runs that no worker executes.
 * `with_input`: only runs whose engine's input has these fields. `error`: why the service cancels them.
 */
export interface RunSelection {
  user_id: string;
  agent_id?: string;
  run_id?: string;
  idle_only?: boolean;
  with_input?: Readonly<Record<string, unknown>>;
  error?: RunError;
}

/** Requests the cancellation of open runs. A run without a worker ends at once. Returns the affected runs. */
export async function cancelRuns(sql: Sql, which: RunSelection, now: Instant): Promise<RunRow[]> {
  const { user_id, agent_id = null, run_id = null, idle_only = false, with_input, error } = which;
  return sql.query<RunRow>({
    text: `with open as materialized (
        select user_id, id from run
        where user_id = $1 and ($2::uuid is null or agent_id = $2) and ($3::uuid is null or id = $3)
          and phase <> 'ended' and (phase <> 'working' or not $5)
          and ($6::jsonb is null or engine_input @> $6::jsonb)
        order by user_id, id for update
      ), ended as (
        update run set cancel_requested_at = coalesce(cancel_requested_at, $4::timestamptz),
          status = ${sqlNext("cancel")}, error = coalesce(run.error, $7::jsonb),
          finished_at = case when run.phase <> 'working' then $4::timestamptz end,
          lease_until = case when run.phase = 'working' then lease_until end
        from open where run.user_id = open.user_id and run.id = open.id returning run.*
      ), steps as (${ENDED_STEPS}), actions as (${CANCELLED_ACTIONS})
      select ${RUN_COLUMNS} from ended`,
    values: [
      user_id,
      agent_id,
      run_id,
      now,
      idle_only,
      with_input === undefined ? null : JSON.stringify(with_input),
      error === undefined ? null : JSON.stringify(error),
    ],
  });
}

/** Records what the run's prompts show, so that a resumed run shows the same. False: the lease is lost. */
export async function recordInput(sql: Sql, lease: RunLease, recorded: RecordedInput): Promise<boolean> {
  const rows = await sql.query({
    name: "run_record_input",
    text: `update run set engine_input = engine_input || $4::jsonb
      where user_id = $1 and id = $2 and epoch = $3 and ${PHASE_OF_ONE} = 'working' returning id`,
    values: [lease.user_id, lease.run_id, lease.epoch, jsonbText(recorded)],
  });
  return rows.length > 0;
}

/**
 * Leaves a running run waiting, without a worker or a caller. False: the run is being cancelled, the lease is lost, or `most` runs of
 * the user wait already. Runs that are suspended at the same moment do not see each other, so there may be a few more.
 */
export async function suspendRun(
  sql: Sql,
  lease: RunLease,
  { status, most }: { status: WaitingStatus; most: number },
): Promise<boolean> {
  const rows = await sql.query({
    name: "run_suspend",
    text: `update run set status = $4::text, worker_id = null, lease_until = null,
        priority = greatest(priority, ${PRIORITY.manual}), worked_ms = worked_ms + ${sqlWorkedMs("clock_timestamp()")}
      where user_id = $1 and id = $2 and epoch = $3 and run.status || '' = 'running'
        and (select count(*) from (
          select from run as waiting where waiting.user_id = $1 and waiting.phase = 'waiting' limit $5
        ) as others) < $5
      returning id`,
    values: [lease.user_id, lease.run_id, lease.epoch, status, most],
  });
  return rows.length > 0;
}

/** Queues a waiting run again. False: the run does not wait. */
export async function resumeRun(sql: Sql, { user_id, run_id }: { user_id: string; run_id: string }): Promise<boolean> {
  const rows = await sql.query({
    name: "run_resume",
    text: `update run set status = ${sqlNext("resume")}, claimed_at = clock_timestamp()
      where user_id = $1 and id = $2 and ${PHASE_OF_ONE} = 'waiting' returning id`,
    values: [user_id, run_id],
  });
  return rows.length > 0;
}

/** Removes the drafts from the tests of an agent, as its versions are deleted. */
export async function forgetDrafts(tx: Tx, { user_id, agent_id }: AgentKey): Promise<void> {
  await tx.query({
    text: "update run set engine_input = engine_input - 'draft' where user_id = $1 and agent_id = $2 and trigger = 'test'",
    values: [user_id, agent_id],
  });
}

/** Deletes all runs and steps of a user. */
export async function deleteRunsOfUser(tx: Tx, user_id: string): Promise<void> {
  for (const table of ["run_action", "run_step", "run"]) {
    await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
  }
}

/** Claims the worker's runs again, except the runs in `known`. */
export async function reclaimRuns(
  sql: Sql,
  { worker_id, known, lease_ms }: { worker_id: string; known: readonly string[]; lease_ms: number },
): Promise<ClaimedRow[]> {
  return sql.query<ClaimedRow>({
    text: `update run set epoch = epoch + 1, claimed_at = clock_timestamp(), worked_ms = worked_ms + ${sqlWorkedMs("clock_timestamp()")},
        lease_until = clock_timestamp() + make_interval(secs => $3 / 1000.0)
      where worker_id = $1 and phase = 'working' and id not in (select value::uuid from jsonb_array_elements_text($2::jsonb))
      returning ${CLAIMED_COLUMNS}`,
    values: [worker_id, JSON.stringify(known), lease_ms],
  });
}

/**
 * Returns the worker's runs, or with `lease` only that run, to the queue as the same attempt. Runs that are being
 * cancelled and chats whose caller waits are cancelled instead. Returns the cancelled runs.
 */
export async function handBackRuns(
  sql: Sql,
  { worker_id, lease }: { worker_id: string; lease: RunLease | null },
  now: Instant,
): Promise<CancelledRun[]> {
  return sql.query<CancelledRun>({
    text: `with owned as materialized (
        select user_id, id from run where worker_id = $1 and phase = 'working'
          and ($3::uuid is null or (user_id = $3 and id = $4 and epoch = $5))
        order by user_id, id for update
      ), ended as (
        update run set worker_id = null, lease_until = null, worked_ms = run.worked_ms + ${sqlWorkedMs("clock_timestamp()")},
          status = case when ${HAS_CALLER} then ${sqlNext("hand_back_chat")} else ${sqlNext("hand_back")} end,
          finished_at = case when run.status = 'cancelling' or ${HAS_CALLER} then $2::timestamptz end
        from owned where run.user_id = owned.user_id and run.id = owned.id returning run.*
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, trigger, error from ended where status = 'cancelled'`,
    values: [worker_id, now, lease?.user_id ?? null, lease?.run_id ?? null, lease?.epoch ?? null],
  });
}

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
const sqlLostRuns = (condition: string, at_work: string, lock = "") => `expired_leases(${LOST_BEFORE}) as expired
  cross join lateral (
    select * from run where user_id = expired.user_id and id = expired.id and ${PHASE_OF_ONE} <> 'ended'
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
 * Runs that fail instead of being retried. A chat whose caller was connected to the lost worker fails at once.
 */
const GIVEN_UP = `status in ${sqlBefore("give_up")} and (${HAS_CALLER} or losses + ${AT_WORK} >= $3 or attempt >= ${MAX_ATTEMPTS})`;

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
        from ${sqlLostRuns(`not (${GIVEN_UP})`, "$6", "for update skip locked")}
      ), ended as (
        update run set status = outcome, worker_id = null, lease_until = null,
          attempt = attempt + case outcome when 'queued' then 1 else 0 end,
          losses = losses + case outcome when 'queued' then at_work else 0 end,
          worked_ms = worked_ms + ${sqlWorkedMs("lease_until - make_interval(secs => $4 / 1000.0)")},
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
    text: `select run.user_id, run.id as run_id, agent_id, trigger, epoch from ${sqlLostRuns(GIVEN_UP, "$4")}`,
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
        where user_id = $3 and id = $4 and epoch = $5 and run.status || '' in ${sqlBefore("give_up")} and lease_until < ${LOST_BEFORE} returning run.*, ${DUE_INPUT}
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, schedule_id, trigger, status, error, epoch, failed_steps, failed_calls, due_input from ended`,
    values: [unexpired, judged_at_ms, run.user_id, run.run_id, run.epoch, jsonbText(error), now],
  });
}
