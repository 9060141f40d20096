import type { RunDetail, RunError, RunRecord } from "../contract/runs.ts";
import type { OccurrenceRecord } from "../contract/schedules.ts";
import { errors } from "../errors.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Instant, Sql, Tx } from "../platform/db.ts";
import { isUuid, newId } from "../platform/ids.ts";
import { nextRun, type ScheduleSpec } from "./next-run.ts";
import * as runStore from "./run.store.ts";
import * as history from "./run-history.store.ts";
import { createRunSignals } from "./run-signals.ts";
import * as scheduleStore from "./schedule.store.ts";
import type {
  AgentKey,
  ClaimedRun,
  ClaimLimits,
  JournalStep,
  LeaseState,
  NewRun,
  OnSetback,
  RunFilter,
  RunFinish,
  RunLease,
  StepFinish,
  StepStart,
} from "./scheduling.types.ts";
import { type OnDue, tick } from "./tick.service.ts";

/** A worker that has not renewed a lease for so long has lost it. Real time. */
const LEASE_MS = 45_000;
/** How often a worker should renew: three may fail before the lease is lost. */
export const HEARTBEAT_MS = LEASE_MS / 4;
/** contract 6, worker_lost: workers that a run may lose before it fails. */
const MAX_ATTEMPTS = 3;
const WORKER_LOST: RunError = {
  code: "worker_lost",
  message: "The process that carried out this run was lost and the run was not taken up again. Run it again.",
};

/** A schedule as it stands. */
export interface ScheduleStanding {
  /** null: not active. */
  next_run_at: Instant | null;
  /** Not null: due instants go by, recorded as skipped. */
  paused_reason: string | null;
}

export type Scheduling = ReturnType<typeof createScheduling>;

/** Schedules, their occurrences, and the durable queue of runs. Domain time is `clock`'s; leases are the database's real time. */
export function createScheduling({ db, clock }: { db: Db; clock: Clock }) {
  const listeners: OnSetback[] = [];
  const tell: OnSetback = async (setback, tx) => {
    for (const listener of listeners) await listener(setback, tx);
  };
  return {
    ...createSchedules(db, clock, tell),
    ...createQueue(db, clock, tell),
    ...createHistory(db),
    /** Subscribes to runs that fail and schedules that pause. */
    onSetback(listener: OnSetback): void {
      listeners.push(listener);
    },
  };
}

function createSchedules(db: Db, clock: Clock, tell: OnSetback) {
  const setPaused = async (tx: Tx, agent: AgentKey, reason: string | null) => {
    const was_going = await scheduleStore.setPaused(tx, agent, reason);
    if (was_going && reason !== null) await tell({ ...agent, kind: "schedule_paused", reason }, tx);
  };
  return {
    /**
     * Sets when the agent runs; null: not at all. What is unchanged keeps its next run; what has changed is due next
     * after now.
     */
    async setSchedule(tx: Tx, agent: AgentKey, spec: ScheduleSpec | null): Promise<void> {
      if (spec === null) return scheduleStore.deactivateSchedule(tx, agent);
      await scheduleStore.upsertSchedule(tx, agent, scheduleStore.columnsOf(spec), nextRun(spec, clock.now()));
    },
    /** With a reason, due instants are skipped from now on; null resumes. */
    async pauseSchedule(agent: AgentKey, reason: string | null, tx?: Tx): Promise<void> {
      await (tx === undefined ? db.transaction((own) => setPaused(own, agent, reason)) : setPaused(tx, agent, reason));
    },
    /** Where the schedules of these agents stand, by agent; those that never had one are absent. */
    async schedules(
      user_id: string,
      agent_ids: readonly string[],
      sql: Sql = db,
    ): Promise<Map<string, ScheduleStanding>> {
      const rows = await scheduleStore.selectSchedules(sql, user_id, agent_ids);
      return new Map(
        rows.map(({ agent_id, next_run_at, paused_reason }) => [agent_id, { next_run_at, paused_reason }]),
      );
    },
    /** What became of the agent's due instants, newest first; `before` is the `at` of the last one seen. */
    occurrences(agent: AgentKey, page: { limit: number; before: Instant | null }): Promise<OccurrenceRecord[]> {
      return scheduleStore.selectOccurrences(db, agent, page);
    },
    /** Ends everything of an agent that is being deleted: its schedule, and its runs as `requestCancel` does. */
    async forgetAgent(tx: Tx, agent: AgentKey): Promise<void> {
      await scheduleStore.deleteSchedule(tx, agent);
      await runStore.cancelRuns(tx, { ...agent, run_id: null }, clock.now());
    },
    /** Forgets all schedules and runs of a user who is being erased. A worker that is at one hears of it and finds its lease lost. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await runStore.cancelRuns(tx, { user_id, agent_id: null, run_id: null }, clock.now());
      await scheduleStore.deleteUser(tx, user_id);
    },
    /** Queues what has come due, see tick.service.ts. */
    tick(onDue: OnDue): Promise<void> {
      return tick({ db, clock }, onDue);
    },
    /** The next instant up to `until` at which a schedule is due; null if none. */
    nextDueAt(until: Instant): Promise<Instant | null> {
      return scheduleStore.selectNextDue(db, until);
    },
  };
}

function createQueue(db: Db, clock: Clock, tell: OnSetback) {
  const signals = createRunSignals(db);
  const tellFailed = async (ended: runStore.EndedRow, tx: Tx) => {
    const { user_id, agent_id, id: run_id, trigger, error } = ended;
    if (error !== null) await tell({ user_id, agent_id, kind: "run_failed", run_id, trigger, error }, tx);
  };
  return {
    /**
     * Queues a run by hand. With `reserved`, for whoever waits for it on this very node: only that worker may claim it,
     * and it is cancelled when the worker has not done so in time.
     */
    async enqueue(
      run: NewRun & { trigger: "manual" | "chat"; reserved?: { worker_id: string; for_ms: number } },
      sql: Sql = db,
    ): Promise<RunRecord> {
      const insert = { ...run, id: newId(), scheduled_for: null, reserved: run.reserved ?? null };
      const [row] = await runStore.insertRuns(sql, [insert], clock.now());
      if (row === undefined) throw new Error("a run was inserted without a row");
      return recordOf(row);
    },
    /** Up to `most` queued runs for this worker: chats before run-nows before schedules, in turn among users, within the limits. */
    async claim(worker_id: string, most: number, limits: ClaimLimits): Promise<ClaimedRun[]> {
      const rows = await runStore.claimRuns(db, { worker_id, most, limits, lease_ms: LEASE_MS, now: clock.now() });
      return rows.map(claimedOf);
    },
    /** Renews the leases; call it every HEARTBEAT_MS. Tells of each run whether it goes on, in the order given. */
    async heartbeat(leases: readonly RunLease[]): Promise<LeaseState[]> {
      if (leases.length === 0) return [];
      const rows = await runStore.renewLeases(db, leases, LEASE_MS);
      // By epoch too: a worker that stalled can hold an old lease on a run and a new one.
      const keyOf = (run_id: string, epoch: number) => `${run_id} ${epoch}`;
      const states = new Map<string, LeaseState>(rows.map(({ id, epoch, status }) => [keyOf(id, epoch), status]));
      return leases.map(({ run_id, epoch }) => states.get(keyOf(run_id, epoch)) ?? "lost");
    },
    /** Gives runs back unfinished, when the process is to end: another worker goes on from their last finished step. */
    async handBack(leases: readonly RunLease[]): Promise<void> {
      if (leases.length > 0) await runStore.handBackRuns(db, leases, clock.now());
    },
    /** Takes runs from workers that are lost. Idempotent; call it every second or so. */
    async reap(): Promise<void> {
      const reaping = { max_attempts: MAX_ATTEMPTS, error: WORKER_LOST, now: clock.now() };
      await db.transaction(async (tx) => {
        for (const ended of await runStore.reapRuns(tx, reaping)) await tellFailed(ended, tx);
      });
    },
    /** Writes a step's intent before its call is made. Make the call only when the answer is `running`. */
    startStep(lease: RunLease, step: StepStart): Promise<LeaseState> {
      return runStore.startStep(db, lease, step, clock.now());
    },
    /** Records what came of a call that costs nothing. False: the lease is lost, and nothing was written. */
    finishStep(lease: RunLease, step: StepFinish): Promise<boolean> {
      return runStore.finishStep(db, runStore.finishStepArgument(lease, step, clock.now()));
    },
    /** The same as a rider of the ledger's settle: the step and its charge are there both or not at all. */
    finishStepRider(lease: RunLease, step: StepFinish): { procedure: string; argument: unknown } {
      return { procedure: "finish_step", argument: JSON.parse(runStore.finishStepArgument(lease, step, clock.now())) };
    },
    /** Names the model that was chosen, and how. False: the lease is lost. */
    setModel(lease: RunLease, chosen: { model_id: string; routing: Record<string, unknown> | null }): Promise<boolean> {
      return runStore.setModel(db, lease, chosen);
    },
    /** Ends the run; one being cancelled ends `cancelled`, whatever came of it. False: the lease is lost, and nothing was written. */
    async finishRun(lease: RunLease, finish: RunFinish): Promise<boolean> {
      return db.transaction(async (tx) => {
        const ended = await runStore.finishRun(tx, lease, finish, clock.now());
        if (ended !== undefined) await tellFailed(ended, tx);
        return ended !== undefined;
      });
    },
    /** Asks for the run's end: `cancelled` at once while it is queued, else `cancelling` until its worker has stopped. 404, 409. */
    async requestCancel(agent: AgentKey, run_id: string): Promise<RunRecord> {
      if (!isUuid(run_id)) throw errors.notFound("This run");
      const [row] = await runStore.cancelRuns(db, { ...agent, run_id }, clock.now());
      if (row !== undefined) return recordOf(row);
      const found = await history.selectRun(db, agent.user_id, run_id);
      throw found?.agent_id === agent.agent_id ? errors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Asks for the end of all the user's runs. */
    async cancelAll(user_id: string): Promise<void> {
      await runStore.cancelRuns(db, { user_id, agent_id: null, run_id: null }, clock.now());
    },
    /** Resolves when the run has finished, or to false after `timeout_ms` or when `signal` is aborted. */
    waitFinished(user_id: string, run_id: string, timeout_ms: number, signal?: AbortSignal): Promise<boolean> {
      const done = async () => (await history.selectRun(db, user_id, run_id))?.finished_at !== null;
      return signals.until(done, { run_id, timeout_ms, signal });
    },
    /** Resolves when no run is queued or at work, or to false after `timeout_ms`. */
    untilIdle(timeout_ms: number): Promise<boolean> {
      return signals.until(async () => !(await history.hasOpenRuns(db)), { run_id: null, timeout_ms });
    },
    /** When the process is to end: who waits for a run on this node is told at once that it has not finished. */
    endWaits: signals.end,
    /** For a worker: hears of runs to claim and to stop. Signals can get lost, so claim now and then as well. */
    watch: signals.watch,
  };
}

function createHistory(db: Db) {
  return {
    /** Runs of an agent, newest first; `before_id` is the last one seen. */
    async listRuns(
      agent: AgentKey,
      filter: RunFilter,
      page: { limit: number; before_id: string | null },
    ): Promise<RunRecord[]> {
      return (await history.selectRuns(db, agent, filter, page)).map(recordOf);
    },
    /** One run with its output and steps. 404 when there is none, or it is another agent's. */
    async getRun(agent: AgentKey, run_id: string): Promise<RunDetail> {
      const row = isUuid(run_id) ? await history.selectRun(db, agent.user_id, run_id) : undefined;
      if (row?.agent_id !== agent.agent_id) throw errors.notFound("This run");
      const steps = await history.selectSteps(db, agent.user_id, run_id);
      return { ...recordOf(row), output: row.output, steps: steps.map(({ internal: _, ...step }) => step) };
    },
    /** The newest run of each agent, by agent; those without one are absent. */
    async lastRuns(user_id: string, agent_ids: readonly string[]): Promise<Map<string, RunRecord>> {
      const rows = await history.selectLastRuns(db, user_id, agent_ids);
      return new Map(rows.map((row) => [row.agent_id, recordOf(row)]));
    },
    /** The steps of a claimed run, with what only the engine sees: a run at its second attempt goes on from them. */
    journal({ user_id, run_id }: RunLease): Promise<JournalStep[]> {
      return history.selectSteps(db, user_id, run_id);
    },
  };
}

/** contract 6: the run as callers see it; `row` may hold more. */
function recordOf(row: runStore.RunRow): RunRecord {
  const { scheduled_for, started_at, input_tokens, output_tokens, cost_tokens } = row;
  const is_late = scheduled_for !== null && started_at !== null;
  return {
    id: row.id,
    agent_id: row.agent_id,
    agent_version: row.agent_version,
    trigger: row.trigger,
    status: row.status,
    scheduled_for,
    queued_at: row.queued_at,
    started_at,
    finished_at: row.finished_at,
    lateness_ms: is_late ? Date.parse(started_at) - Date.parse(scheduled_for) : null,
    attempt: row.attempt,
    model_id: row.model_id,
    routing: row.routing,
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, cost_tokens },
    steps_count: row.steps_count,
    error: row.error,
  };
}

function claimedOf(row: runStore.ClaimedRow): ClaimedRun {
  const { user_id, id, epoch, started_at } = row;
  if (started_at === null) throw new Error(`run ${id} was claimed without having started`);
  return {
    lease: { user_id, run_id: id, epoch },
    agent_id: row.agent_id,
    agent_version: row.agent_version,
    trigger: row.trigger,
    scheduled_for: row.scheduled_for,
    started_at,
    attempt: row.attempt,
    model_id: row.model_id,
    routing: row.routing,
    cost_tokens: row.cost_tokens,
    input: row.input,
  };
}
