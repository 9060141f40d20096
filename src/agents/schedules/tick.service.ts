import type { AgentKey } from "../../api/contract/agents.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type DueInstant, decideDue, type Pause } from "./due.ts";
import {
  advanceSchedules,
  DEFAULT_SCHEDULE,
  type DueRow,
  insertOccurrences,
  lockDueSchedules,
  type OccurrenceRow,
  type ScheduleRow,
} from "./schedule.store.ts";
import { toSpec } from "./spec-fields.ts";

/** The content of a schedule's due run, or why it does not run. */
export type DueAnswer =
  | { run: { agent_version: number; model_id: string | null; engine_input: unknown } }
  | { declined: string };

/** A due schedule as the agents see it. */
export type DueSchedule = Pick<ScheduleRow, "user_id" | "id" | "agent_id" | "name" | "spec" | "input" | "api_key_id">;

/** Answers for each schedule, by its id. The agent of one without an answer is deleted: its instant is recorded as skipped. */
export type OnDue = (tx: Tx, schedules: readonly DueSchedule[]) => Promise<ReadonlyMap<string, DueAnswer>>;

/** A due run to start. */
export interface DueRun extends AgentKey {
  id: string;
  trigger: "schedule";
  agent_version: number;
  model_id: string | null;
  engine_input: unknown;
  schedule_id: string;
  scheduled_for: Instant;
  input: ScheduleRow["input"];
  run_prompt: string | null;
}

/** The tick's access to agents and runs. It calls these in its own transaction, so they may await SQL only. */
export interface DueRuns {
  onDue: OnDue;
  /** Schedules with an unfinished run, and the id of that run. */
  busySchedules(
    tx: Tx,
    schedules: readonly (AgentKey & { schedule_id: string; with_run_nows: boolean })[],
  ): Promise<ReadonlyMap<string, string>>;
  startRuns(tx: Tx, runs: readonly DueRun[]): Promise<void>;
}

/** The reason of an instant that did not run because its schedule changed at that moment. */
const CHANGED = "the schedule was changed or turned off at that moment";
/** Limit of schedules settled in one transaction. */
const BATCH = 500;
/** Concurrent transactions: while the database executes one, the next is decided. */
const LANES = 2;
/** Limit of instants settled in one transaction. After a long downtime each schedule has many. */
const MAX_INSTANTS = 5_000;

/**
 * Settles all due instants. Occurrence, run and next instant are written in one transaction, so each instant yields
 * exactly one occurrence, for any number of nodes and crashes. It only queues runs and never waits for one.
 */
export async function tick({ db, clock }: { db: Db; clock: Clock }, due_runs: DueRuns): Promise<void> {
  const settleAll = async () => {
    while (!(await db.transaction((tx) => settleBatch(tx, clock.now(), due_runs))));
  };
  const lanes = await Promise.allSettled(Array.from({ length: LANES }, settleAll));
  for (const lane of lanes) if (lane.status === "rejected") throw lane.reason;
}

/**
 * Records the due instants of a locked schedule that no tick has settled yet, before it is changed or turned off and they
 * are lost.
 */
export async function recordPassed(tx: Tx, now: Instant, row: ScheduleRow): Promise<void> {
  let { next_run_at } = row;
  while (next_run_at !== null && next_run_at <= now) {
    const due = decideDue({ spec: toSpec(row.spec), next_run_at, paused: readPause(row), busy_run_id: null }, now);
    const occurrences = due.instants.map((instant): OccurrenceRow => {
      const occurrence = toOccurrence(row, instant, now);
      return instant.state === "run" ? { ...occurrence, state: "skipped", reason: CHANGED } : occurrence;
    });
    await insertOccurrences(tx, occurrences);
    next_run_at = due.next_run_at;
  }
}

/** True: no more schedules are due, except schedules that another node has locked. */
async function settleBatch(tx: Tx, now: Instant, due_runs: DueRuns): Promise<boolean> {
  const rows = await lockDueSchedules(tx, now, BATCH);
  if (rows.length === 0) return true;
  const decisions = decide(rows, await due_runs.busySchedules(tx, rows.map(toRunsOfSchedule)), now);
  const due = decisions.filter(({ instants }) => instants.some(({ state }) => state === "run")).map(({ row }) => row);
  const answers = due.length === 0 ? new Map<string, DueAnswer>() : await due_runs.onDue(tx, due);

  const occurrences: OccurrenceRow[] = [];
  const runs: DueRun[] = [];
  for (const { row, instants } of decisions) {
    for (const instant of instants) {
      const { occurrence, run } = decideOutcome(row, instant, answers.get(row.id), now);
      occurrences.push(occurrence);
      if (run !== null) runs.push(run);
    }
  }
  const recorded = await insertOccurrences(tx, occurrences);
  const queued = runs.filter(({ id }) => recorded.has(id));
  if (queued.length > 0) await due_runs.startRuns(tx, queued);
  await advanceSchedules(
    tx,
    decisions.map(({ row: { user_id, id }, next_run_at }) => ({ user_id, id, next_run_at })),
  );
  const all_settled =
    decisions.length === rows.length && decisions.every(({ next_run_at }) => next_run_at === null || next_run_at > now);
  return all_settled && rows.length < BATCH;
}

type Decision = ReturnType<typeof decideDue> & { row: DueRow };

/** Decides the instants of as many schedules as fit into one transaction. */
function decide(rows: readonly DueRow[], busy: ReadonlyMap<string, string>, now: Instant): Decision[] {
  const decisions: Decision[] = [];
  let instants = 0;
  // Schedules that are due together often have the same settings, so their decision is cached.
  const known = new Map<string, ReturnType<typeof decideDue>>();
  for (const row of rows) {
    const { next_run_at } = row;
    const busy_run_id = busy.get(row.id) ?? null;
    const schedule = { spec: toSpec(row.spec), next_run_at, paused: readPause(row), busy_run_id };
    const key = JSON.stringify(schedule);
    const decision = known.get(key) ?? decideDue(schedule, now);
    known.set(key, decision);
    decisions.push({ row, instants: decision.instants, next_run_at: decision.next_run_at });
    instants += decision.instants.length;
    if (instants >= MAX_INSTANTS) break;
  }
  return decisions;
}

function readPause({ paused_reason, paused_at }: ScheduleRow): Pause | null {
  return paused_reason === null ? null : { reason: paused_reason, since: paused_at };
}

/** A run-now without a schedule counts as a run of the default one. */
function toRunsOfSchedule({ user_id, agent_id, id, name }: DueRow) {
  return { user_id, agent_id, schedule_id: id, with_run_nows: name === DEFAULT_SCHEDULE };
}

function toOccurrence(
  { user_id, id, agent_id }: ScheduleRow,
  { at, state, reason }: DueInstant,
  now: Instant,
): OccurrenceRow {
  return { user_id, schedule_id: id, agent_id, at, state, reason, run_id: null, recorded_at: now };
}

/** The occurrence to record for an instant, and its run if it has one. */
function decideOutcome(
  row: DueRow,
  instant: DueInstant,
  answer: DueAnswer | undefined,
  now: Instant,
): { occurrence: OccurrenceRow; run: DueRun | null } {
  const occurrence = toOccurrence(row, instant, now);
  if (instant.state !== "run") return { occurrence, run: null };
  if (answer === undefined || "declined" in answer) {
    const why = answer?.declined ?? "the agent is gone";
    return { occurrence: { ...occurrence, state: "skipped", reason: why }, run: null };
  }
  const { user_id, agent_id, id: schedule_id, input, run_prompt } = row;
  const { agent_version, model_id, engine_input } = answer.run;
  const id = newId();
  return {
    occurrence: { ...occurrence, run_id: id },
    run: {
      user_id,
      agent_id,
      trigger: "schedule",
      id,
      schedule_id,
      scheduled_for: instant.at,
      agent_version,
      model_id,
      engine_input,
      input,
      run_prompt,
    },
  };
}
