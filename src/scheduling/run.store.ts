import type { RunError, RunStatus, RunTrigger } from "../contract/runs.ts";
import type { Instant, Sql } from "../platform/db.ts";
import type {
  ClaimLimits,
  LeaseState,
  NewRun,
  RunFinish,
  RunLease,
  StepFinish,
  StepStart,
} from "./scheduling.types.ts";
import { jsonbText, storableText } from "./storable.ts";

/** Writes to runs and their steps. Every write under a lease names its epoch: of a stale one it changes nothing. */

/** Runs given back in one go; the rest follows a second later. */
const REAP_BATCH = 500;
/** Lower goes first: somebody waits for a chat, nobody for a schedule. */
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
  error: RunError | null;
}

/** A claimed run: its row with what the engine needs. */
export interface ClaimedRow extends RunRow {
  epoch: number;
  input: unknown;
}

/** What a run's record is made of. */
export const RUN_COLUMNS = `user_id, id, agent_id, agent_version, trigger, status, scheduled_for, queued_at, started_at,
  finished_at, attempt, model_id, routing, input_tokens, output_tokens, cost_tokens, steps_count, error`;

const ENDED_STEPS = `update run_step set finished_at = ended.finished_at, error = coalesce(run_step.error, ended.error),
    status = case ended.status when 'failed' then 'failed' else 'cancelled' end
  from ended where run_step.user_id = ended.user_id and run_step.run_id = ended.id and run_step.status = 'running'
    and ended.finished_at is not null`;

/** A run to be inserted. With `reserved`, only that worker may claim it, and it ends when nobody has in time. */
export interface RunInsert extends NewRun {
  id: string;
  trigger: RunTrigger;
  scheduled_for: Instant | null;
  reserved: { worker_id: string; for_ms: number } | null;
}

export async function insertRuns(sql: Sql, runs: readonly RunInsert[], now: Instant): Promise<RunRow[]> {
  const rows = runs.map(({ reserved, ...run }) => ({ ...run, ...reserved, priority: PRIORITY[run.trigger] }));
  return sql.query<RunRow>({
    name: "run_insert",
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, scheduled_for, queued_at, model_id, input, priority, worker_id, lease_until)
      select user_id, id, agent_id, agent_version, trigger, scheduled_for, $2::timestamptz, model_id, input, priority, worker_id,
        clock_timestamp() + make_interval(secs => for_ms / 1000.0)
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, id uuid, agent_id uuid, agent_version integer, trigger text,
        scheduled_for timestamptz, model_id text, input jsonb, priority smallint, worker_id text, for_ms integer)
      returning ${RUN_COLUMNS}`,
    values: [jsonbText(rows), now],
  });
}

export async function claimRuns(
  sql: Sql,
  claim: { worker_id: string; most: number; limits: ClaimLimits; lease_ms: number; now: Instant },
): Promise<ClaimedRow[]> {
  const { worker_id, most, limits, lease_ms, now } = claim;
  return sql.query<ClaimedRow>({
    name: "run_claim",
    text: `select ${RUN_COLUMNS}, epoch, input from claim_runs($1, $2, $3, $4, $5, $6) order by priority, id`,
    values: [worker_id, most, limits.concurrent_runs, limits.concurrent_runs_per_user, lease_ms, now],
  });
}

const GIVEN_LEASES = "jsonb_to_recordset($1::jsonb) as mine(user_id uuid, run_id uuid, epoch integer)";
const OWNED = `run.user_id = mine.user_id and run.id = mine.run_id and run.epoch = mine.epoch
  and run.status in ('running', 'cancelling')`;

/**
 * Renews the leases that are still good, and tells which those are. It waits for nobody, so that it can stand in no
 * deadlock with a batch of settles that record steps: what is locked at this moment is renewed by the next heartbeat.
 */
export async function renewLeases(sql: Sql, leases: readonly RunLease[], lease_ms: number) {
  return sql.query<{ id: string; epoch: number; status: Exclude<LeaseState, "lost"> }>({
    name: "run_renew",
    text: `with free as materialized (
        select run.user_id, run.id from run join ${GIVEN_LEASES} on ${OWNED} for update of run skip locked
      ), renewed as (
        update run set lease_until = clock_timestamp() + make_interval(secs => $2 / 1000.0)
          from free where run.user_id = free.user_id and run.id = free.id
      )
      select run.id, run.epoch, run.status from run join ${GIVEN_LEASES} on ${OWNED}`,
    values: [jsonbText(leases), lease_ms],
  });
}

/** Puts runs back into the queue for anybody, as the same attempt; those being cancelled are cancelled, and so are chats. */
export async function handBackRuns(sql: Sql, leases: readonly RunLease[], now: Instant): Promise<void> {
  await sql.query({
    text: `with ended as (
        update run set worker_id = null, lease_until = null,
          status = case when run.status = 'cancelling' or run.trigger = 'chat' then 'cancelled' else 'queued' end,
          finished_at = case when run.status = 'cancelling' or run.trigger = 'chat' then $2::timestamptz end
        from ${GIVEN_LEASES} where ${OWNED} returning run.*
      ) ${ENDED_STEPS}`,
    values: [jsonbText(leases), now],
  });
}

/**
 * Takes runs from workers whose lease is over. A run goes back to the queue as the next attempt, or fails after the
 * last one; a chat fails at once, since its caller was connected to that worker. One being cancelled is cancelled,
 * and so is one that was reserved for a worker which never came for it.
 */
export async function reapRuns(
  sql: Sql,
  { max_attempts, error, now }: { max_attempts: number; error: RunError; now: Instant },
) {
  return sql.query<EndedRow>({
    name: "run_reap",
    text: `with expired as materialized (
        select user_id, id,
          case when status <> 'running' then 'cancelled' when trigger = 'chat' or attempt >= $1 then 'failed' else 'queued' end as outcome
        from run where status in ('queued', 'running', 'cancelling') and lease_until < clock_timestamp()
        order by lease_until limit ${REAP_BATCH} for update skip locked
      ), ended as (
        update run set status = outcome, worker_id = null, lease_until = null,
          attempt = attempt + case outcome when 'queued' then 1 else 0 end,
          error = case outcome when 'failed' then $2::jsonb end,
          finished_at = case when outcome <> 'queued' then $3::timestamptz end
        from expired where run.user_id = expired.user_id and run.id = expired.id
        returning run.*
      ), steps as (${ENDED_STEPS})
      select user_id, id, agent_id, trigger, status, error from ended`,
    values: [max_attempts, jsonbText(error), now],
  });
}

/** Writes the intent of a step; again when a resumed run takes it up again. Nothing is written when the run is being cancelled. */
export async function startStep(sql: Sql, lease: RunLease, step: StepStart, now: Instant): Promise<LeaseState> {
  const [row] = await sql.query<{ status: LeaseState }>({
    name: "step_start",
    text: `with owned as (
        update run set steps_count = case status when 'running' then greatest(steps_count, $4 + 1) else steps_count end
        where user_id = $1 and id = $2 and epoch = $3 and status in ('running', 'cancelling') returning status
      ), step as (
        insert into run_step (user_id, run_id, index, type, name, status, arguments, internal, started_at)
        select $1, $2, $4, $5, $6, 'running', $7::jsonb, $8::jsonb, $9 from owned where status = 'running'
        on conflict (user_id, run_id, index) do update set started_at = excluded.started_at, arguments = excluded.arguments,
          internal = coalesce(excluded.internal, run_step.internal)
        where run_step.status = 'running'
      ) select status from owned`,
    values: [
      lease.user_id,
      lease.run_id,
      lease.epoch,
      step.index,
      step.type,
      storableText(step.name),
      jsonbText(step.arguments),
      step.internal === undefined ? null : jsonbText(step.internal),
      now,
    ],
  });
  return row?.status ?? "lost";
}

/** The argument of the SQL function `finish_step`, fit to be stored. */
export function finishStepArgument(lease: RunLease, step: StepFinish, now: Instant): string {
  return jsonbText({ ...lease, ...step, finished_at: now });
}

/** False: the lease is lost, or the step has its outcome already. */
export async function finishStep(sql: Sql, argument: string): Promise<boolean> {
  const [row] = await sql.query<{ done: boolean }>({
    name: "step_finish",
    text: "select finish_step($1::jsonb) as done",
    values: [argument],
  });
  return row?.done === true;
}

/** Names the model that was chosen, and how. False: the lease is lost. */
export async function setModel(
  sql: Sql,
  lease: RunLease,
  chosen: { model_id: string; routing: Record<string, unknown> | null },
): Promise<boolean> {
  const rows = await sql.query({
    text: `update run set model_id = $4, routing = $5::jsonb
      where user_id = $1 and id = $2 and epoch = $3 and status in ('running', 'cancelling') returning id`,
    values: [
      lease.user_id,
      lease.run_id,
      lease.epoch,
      chosen.model_id,
      chosen.routing === null ? null : jsonbText(chosen.routing),
    ],
  });
  return rows.length > 0;
}

/** A run that has ended, as far as others are told of it. */
export type EndedRow = Pick<RunRow, "user_id" | "id" | "agent_id" | "trigger" | "status" | "error">;

/** Ends the run and its open steps. One that was being cancelled ends cancelled, whatever came of it. Undefined: the lease is lost. */
export async function finishRun(
  sql: Sql,
  lease: RunLease,
  finish: RunFinish,
  now: Instant,
): Promise<EndedRow | undefined> {
  const output = finish.output ?? null;
  const [row] = await sql.query<EndedRow>({
    name: "run_finish",
    text: `with ended as (
        update run set lease_until = null, finished_at = $4::timestamptz, output = $5,
          status = case status when 'cancelling' then 'cancelled' else $6 end,
          error = case status when 'cancelling' then null else $7::jsonb end
        where user_id = $1 and id = $2 and epoch = $3 and status in ('running', 'cancelling')
        returning user_id, id, agent_id, trigger, status, error, finished_at
      ), steps as (${ENDED_STEPS})
      select user_id, id, agent_id, trigger, status, error from ended`,
    values: [
      lease.user_id,
      lease.run_id,
      lease.epoch,
      now,
      output === null ? null : storableText(output),
      finish.status,
      finish.status === "failed" ? jsonbText(finish.error) : null,
    ],
  });
  return row;
}

/** Asks for the end of open runs: the user's, or an agent's, or one of them. A queued one ends at once. Returns those it touched. */
export async function cancelRuns(
  sql: Sql,
  which: { user_id: string; agent_id: string | null; run_id: string | null },
  now: Instant,
): Promise<RunRow[]> {
  return sql.query<RunRow>({
    text: `update run set cancel_requested_at = coalesce(cancel_requested_at, $4::timestamptz),
        status = case status when 'queued' then 'cancelled' else 'cancelling' end,
        finished_at = case status when 'queued' then $4::timestamptz end,
        lease_until = case status when 'queued' then null else lease_until end
      where user_id = $1 and ($2::uuid is null or agent_id = $2) and ($3::uuid is null or id = $3)
        and status in ('queued', 'running', 'cancelling')
      returning ${RUN_COLUMNS}`,
    values: [which.user_id, which.agent_id, which.run_id, now],
  });
}
