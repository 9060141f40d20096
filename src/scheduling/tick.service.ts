import type { Clock } from "../platform/clock.ts";
import type { Db, Instant, Tx } from "../platform/db.ts";
import { newId } from "../platform/ids.ts";
import { type DueInstant, decideDue } from "./due.ts";
import { insertRuns, type RunInsert } from "./run.store.ts";
import { selectBusyAgents } from "./run-history.store.ts";
import {
  advanceSchedules,
  type DueRow,
  insertOccurrences,
  lockDueSchedules,
  type OccurrenceRow,
  specOf,
} from "./schedule.store.ts";
import type { AgentKey, NewRun } from "./scheduling.types.ts";

/** What an agent wants run now that it is due, or why it does not. */
export type DueAnswer = { run: Pick<NewRun, "agent_version" | "model_id" | "input"> } | { declined: string };

/**
 * Asks the agents' own room what their due runs are made of, within the transaction that queues them: only SQL may be
 * awaited. An agent without an answer is gone; its instant is recorded as skipped.
 */
export type OnDue = (tx: Tx, agents: readonly AgentKey[]) => Promise<ReadonlyMap<string, DueAnswer>>;

/** Schedules settled in one transaction. */
const BATCH = 200;

/**
 * Settles every instant that has come: occurrence, run and next instant are written in one transaction, so that each
 * yields exactly one occurrence whatever crashes and however many nodes do this at once. Only queues; never waits for
 * a run.
 */
export async function tick({ db, clock }: { db: Db; clock: Clock }, onDue: OnDue): Promise<void> {
  for (;;) {
    const settled = await db.transaction((tx) => settleBatch(tx, clock.now(), onDue));
    if (settled < BATCH) return;
  }
}

async function settleBatch(tx: Tx, now: Instant, onDue: OnDue): Promise<number> {
  const rows = await lockDueSchedules(tx, now, BATCH);
  if (rows.length === 0) return 0;
  const busy = await selectBusyAgents(tx, rows);
  const decisions = rows.map((row) => ({
    row,
    ...decideDue({ ...row, spec: specOf(row), busy: busy.has(row.agent_id) }, now),
  }));
  const due = decisions.filter(({ instants }) => instants.some(({ state }) => state === "run")).map(({ row }) => row);
  const answers = due.length === 0 ? new Map<string, DueAnswer>() : await onDue(tx, due.map(agentKey));

  const occurrences: OccurrenceRow[] = [];
  const runs: RunInsert[] = [];
  for (const { row, instants } of decisions) {
    for (const instant of instants) {
      const { occurrence, run } = outcome(row, instant, answers.get(row.agent_id), now);
      occurrences.push(occurrence);
      if (run !== null) runs.push(run);
    }
  }
  const recorded = await insertOccurrences(tx, occurrences);
  const queued = runs.filter(({ id }) => recorded.has(id));
  if (queued.length > 0) await insertRuns(tx, queued, now);
  await advanceSchedules(
    tx,
    decisions.map(({ row, next_run_at }) => ({ ...agentKey(row), next_run_at })),
  );
  return rows.length;
}

function agentKey({ user_id, agent_id }: DueRow): AgentKey {
  return { user_id, agent_id };
}

/** The occurrence to record for an instant, and the run to queue if it is one. */
function outcome(
  row: DueRow,
  instant: DueInstant,
  answer: DueAnswer | undefined,
  now: Instant,
): { occurrence: OccurrenceRow; run: RunInsert | null } {
  const occurrence = { ...agentKey(row), ...instant, run_id: null, recorded_at: now };
  if (instant.state !== "run") return { occurrence, run: null };
  if (answer === undefined || "declined" in answer) {
    return {
      occurrence: { ...occurrence, state: "skipped", reason: answer?.declined ?? "the agent is gone" },
      run: null,
    };
  }
  const id = newId();
  return {
    occurrence: { ...occurrence, run_id: id },
    run: { ...agentKey(row), ...answer.run, id, trigger: "schedule", scheduled_for: instant.at, reserved: null },
  };
}
