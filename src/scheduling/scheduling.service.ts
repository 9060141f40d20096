import type { RunDetail, RunError, RunRecord } from "../contract/runs.ts";
import type { OccurrenceRecord } from "../contract/schedules.ts";
import { errors } from "../errors.ts";
import { createBatches } from "../platform/batches.ts";
import { type Clock, monotonicMs } from "../platform/clock.ts";
import type { Db, Instant, Sql, Tx } from "../platform/db.ts";
import { isUuid } from "../platform/ids.ts";
import { createEnqueue } from "./enqueue.service.ts";
import { createHistory } from "./history.service.ts";
import { createLeaseTime } from "./lease-time.ts";
import { nextRun, type ScheduleSpec } from "./next-run.ts";
import { createPruning } from "./pruning.ts";
import { handBackRuns, reclaimRuns, selectClock } from "./reclaim.store.ts";
import * as runStore from "./run.store.ts";
import * as history from "./run-history.store.ts";
import { claimedOf, detailOf, recordOf } from "./run-record.ts";
import { createRunSignals, type RunSignals } from "./run-signals.ts";
import * as scheduleStore from "./schedule.store.ts";
import type {
  AgentKey,
  ClaimedRun,
  ClaimLimits,
  EndingRun,
  LeaseState,
  NextRun,
  OnRunEnd,
  OnSetback,
  RunFinish,
  RunLease,
  StepFinish,
  StepStart,
} from "./scheduling.types.ts";
import { type OnDue, recordPassed, tick } from "./tick.service.ts";

/** A worker that has not renewed a lease for so long has lost it. Real time. */
const LEASE_MS = 30_000;
/** How often a worker should renew: three may fail before the lease is lost. */
export const HEARTBEAT_MS = LEASE_MS / 4;
/** contract 6, worker_lost: workers that a run may lose in the middle of a step, none finished in between, before it fails. */
const MAX_LOSSES = 3;
/** What is done or read in one go, of what many runs do at the same time. */
const BATCH_LIMIT = 64;
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
  const ends: RunEnds = { listeners: [], lost_listeners: [], ends_with_step: false };
  const signals = createRunSignals(db);
  const tell: OnSetback = async (setback, tx) => {
    for (const listener of listeners) await listener(setback, tx);
  };
  return {
    ...createSchedules(db, clock, tell),
    ...createQueue({ db, clock, tell, ends, signals }),
    ...createPruning(db),
    ...createHistory({ db, clock, signals, batch_limit: BATCH_LIMIT }),
    /** Subscribes to runs that fail and schedules that pause. */
    onSetback(listener: OnSetback): void {
      listeners.push(listener);
    },
    /** Subscribes to how many runs this node has given up for lost (`worker_lost`), whenever there are any. */
    onLost(listener: (runs: number) => void): void {
      ends.lost_listeners.push(listener);
    },
    /**
     * Subscribes to the end of runs that were at work. With `ends_with_step`, a run may end with its last step, without
     * the listener: the statement that carries out the riders removes `ends` from steps that need the listener.
     */
    onRunEnd(listener: OnRunEnd, ends_with_step = false): void {
      ends.listeners.push(listener);
      ends.ends_with_step = ends.listeners.length === 1 && ends_with_step;
    },
  };
}

function createSchedules(db: Db, clock: Clock, tell: OnSetback) {
  const setPaused = async (tx: Tx, agent: AgentKey, reason: string | null, resume_above?: number) => {
    const pause = { reason, resume_above: resume_above ?? null, now: clock.now() };
    const was_going = await scheduleStore.setPaused(tx, agent, pause);
    if (was_going && reason !== null) await tell({ ...agent, kind: "schedule_paused", reason }, tx);
  };
  return {
    /**
     * Sets when the agent runs; null: not at all. What is unchanged keeps its next run; what has changed is due next
     * after now; instants that have come and were not looked at yet are recorded as skipped.
     */
    async setSchedule(tx: Tx, agent: AgentKey, spec: ScheduleSpec | null): Promise<void> {
      await recordPassed(tx, clock.now(), { user_id: agent.user_id, agent_id: agent.agent_id }, spec);
      if (spec === null) return scheduleStore.deactivateSchedule(tx, agent);
      await scheduleStore.upsertSchedule(tx, agent, scheduleStore.columnsOf(spec), nextRun(spec, clock.now()));
    },
    /** With a reason, due instants are skipped from now on; null resumes. */
    async pauseSchedule(agent: AgentKey, reason: string | null, tx?: Tx): Promise<void> {
      await (tx === undefined ? db.transaction((own) => setPaused(own, agent, reason)) : setPaused(tx, agent, reason));
    },
    /**
     * Pauses a schedule whose user has run out of tokens, until there have been more refills of the account than
     * `resume_above`: as many as there had been before its run looked. One that is paused for another reason stays so.
     */
    pauseForTokens: (tx: Tx, agent: AgentKey, reason: string, resume_above: number) =>
      setPaused(tx, agent, reason, resume_above),
    /** Schedules that wait for tokens, a user's or (null) all, `limit` of them from beyond `after`. */
    waitingForTokens: (page: Parameters<typeof scheduleStore.selectWaiting>[1]) =>
      scheduleStore.selectWaiting(db, page),
    /** Resumes a schedule that waits for tokens, if there have been refills enough. False: it stays as it is. */
    resumeForTokens: (tx: Tx, agent: AgentKey, refills: number) => scheduleStore.endWaiting(tx, agent, refills),
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
    /** Schedules of a user that will run, soonest first, from beyond `after`: paused and inactive ones are left out. */
    nextRuns: (user_id: string, page: { limit: number; after: NextRun | null }) =>
      scheduleStore.selectNextRuns(db, user_id, page),
    /** What became of the agent's due instants, newest first; `before` is the `at` of the last one seen. */
    occurrences: (agent: AgentKey, page: { limit: number; before: Instant | null }): Promise<OccurrenceRecord[]> =>
      scheduleStore.selectOccurrences(db, agent, page),
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
    tick: (onDue: OnDue): Promise<void> => tick({ db, clock }, onDue),
    /** The next instant up to `until` at which a schedule is due; null if none. */
    nextDueAt: (until: Instant): Promise<Instant | null> => scheduleStore.selectNextDue(db, until),
  };
}

/** Subscribers to ended and lost runs, and whether a run may end with its last step. */
interface RunEnds {
  listeners: OnRunEnd[];
  lost_listeners: ((runs: number) => void)[];
  ends_with_step: boolean;
}

interface QueueDeps {
  db: Db;
  clock: Clock;
  tell: OnSetback;
  ends: Readonly<RunEnds>;
  signals: RunSignals;
}

function createQueue({ db, clock, tell, ends, signals }: QueueDeps) {
  const start = createBatches(BATCH_LIMIT, (starts: runStore.StartedStep[]) => runStore.startSteps(db, starts));
  const isFinished = createBatches(BATCH_LIMIT, (keys: history.RunKey[]) => history.selectFinished(db, keys));
  /** Ends runs together with what their end means to others: all of it or nothing. Resolves to the leases of those that have ended. */
  const endRuns = async (
    tx: Tx,
    ending: readonly EndingRun[],
    endThem: () => Promise<runStore.EndedRow[]>,
  ): Promise<Set<string>> => {
    const followUps = [];
    for (const listener of ends.listeners) followUps.push(await listener(ending, tx));
    const rows = await endThem();
    const ended = rows.map(({ epoch: _, ...run }) => run);
    for (const followUp of followUps) await followUp(ended);
    for (const { user_id, agent_id, run_id, trigger, error } of ended) {
      if (error !== null) await tell({ user_id, agent_id, kind: "run_failed", run_id, trigger, error }, tx);
    }
    return new Set(rows.map(leaseKey));
  };
  const end = createBatches(BATCH_LIMIT, async (finishes: runStore.FinishedRun[]) => {
    const ending = finishes.map(({ lease, finish }) => ({ ...lease, fails: finish.status === "failed" }));
    const ended = await db.transaction((tx) => endRuns(tx, ending, () => runStore.finishRuns(tx, finishes)));
    const are_ended = finishes.map(({ lease }) => ended.has(leaseKey(lease)));
    for (const [nth, { lease }] of finishes.entries()) if (are_ended[nth]) signals.finished(lease.run_id);
    return are_ended;
  });
  const judgedAt = createLeaseTime({ step_ms: HEARTBEAT_MS, lease_ms: LEASE_MS });
  const reap = async (which: Pick<runStore.Reaping, "unexpired" | "at_work" | "judged_at_ms">) => {
    const reaping = { max_losses: MAX_LOSSES, lease_ms: LEASE_MS, ...which, now: clock.now() };
    while (await runStore.reapRuns(db, reaping));
    const failures: Error[] = [];
    let given_up = 0;
    for (const run of await runStore.selectGivenUp(db, reaping)) {
      await db
        .transaction((tx) =>
          endRuns(tx, [{ ...run, fails: true }], () => runStore.failLostRun(tx, run, reaping, WORKER_LOST)),
        )
        .then(
          (ended) => {
            given_up += ended.size;
          },
          (error: Error) => failures.push(error), // the others are not to wait for this one
        );
    }
    if (given_up > 0) for (const listener of ends.lost_listeners) listener(given_up);
    if (failures[0] !== undefined) throw failures[0];
  };
  return {
    ...createEnqueue({ db, clock, lease_ms: LEASE_MS, offer: signals.offer }),
    /**
     * Up to `most` queued runs for this worker: chats before run-nows before schedules, in turn among users, within the
     * limits. `reserved_only`: nothing but what waits for this very worker.
     */
    async claim(worker_id: string, most: number, limits: ClaimLimits, reserved_only = false): Promise<ClaimedRun[]> {
      const rows = await runStore.claimRuns(db, {
        worker_id,
        most,
        limits,
        reserved_only,
        lease_ms: LEASE_MS,
        now: clock.now(),
      });
      return rows.map(claimedOf);
    },
    /** Claims anew what is this worker's without its knowing: the answer to a claim was lost. `known` are runs that it is at. */
    async reclaim(worker_id: string, known: readonly string[]): Promise<ClaimedRun[]> {
      return (await reclaimRuns(db, { worker_id, known, lease_ms: LEASE_MS })).map(claimedOf);
    },
    /** Renews the leases; call it every HEARTBEAT_MS. Tells of each run whether it goes on, in the order given. */
    async heartbeat(leases: readonly RunLease[]): Promise<LeaseState[]> {
      if (leases.length === 0) return [];
      const rows = await runStore.renewLeases(db, leases, LEASE_MS);
      const states = new Map<string, LeaseState>(rows.map((row) => [leaseKey(row), row.status]));
      return leases.map((lease) => states.get(leaseKey(lease)) ?? "lost");
    },
    /**
     * Gives back what the worker has unfinished, when its process is to end: another goes on from the last finished step.
     * That is also what it has without its knowing, since the answer to its claim was lost.
     */
    handBack: (worker_id: string): Promise<void> => handBackRuns(db, { worker_id, lease: null }, clock.now()),
    /** The same of one run, as soon as the worker has left it. Nothing is written when it has ended, or is another's. */
    handBackOne: (worker_id: string, lease: RunLease): Promise<void> =>
      handBackRuns(db, { worker_id, lease }, clock.now()),
    /**
     * Takes runs from workers that are lost, but for those that the caller is `at_work` at: a machine that slept, a
     * database that was away or a clock that jumped ends leases of workers that live. Idempotent; call it every second or so.
     */
    async reap(at_work: readonly string[] = []): Promise<void> {
      const steady_ms = monotonicMs();
      await reap({ unexpired: false, at_work, judged_at_ms: judgedAt(await selectClock(db), steady_ms) });
    },
    /** Takes all runs that are at work, when it is known that whoever was at them is gone. */
    takeBackAll: () => reap({ unexpired: true, at_work: [], judged_at_ms: null }),
    /**
     * Writes a step's intent before its call is made. Make the call only when the answer is `running`. The intent of a
     * tool call is on the disk then; that of a model call, like its hold, need not be: without its answer it means nothing.
     */
    startStep(lease: RunLease, step: StepStart): Promise<LeaseState> {
      return start({ lease, step, now: clock.now() });
    },
    /** Records what came of a call that costs nothing. False: the lease is lost, and nothing was written. */
    finishStep(lease: RunLease, step: StepFinish): Promise<boolean> {
      return runStore.finishStep(db, runStore.finishStepArgument(lease, step, clock.now()));
    },
    /** `startStep` of a model call as a rider of the ledger's hold: its answer is `{done, state}`. */
    startStepRider(lease: RunLease, step: StepStart): { kind: "start_step"; argument: unknown } {
      return { kind: "start_step", argument: runStore.startStepArgument({ lease, step, now: clock.now() }) };
    },
    /**
     * `finishStep` as a rider of the ledger's settle: the step and its charge are there both or not at all. With
     * `output`, it is the run's last step, whose success ends the run in the same transaction, where that changes
     * nothing else. Its answer, `{done, ended}`, is for `noteEnd` then.
     */
    finishStepRider(
      lease: RunLease,
      step: StepFinish & { output?: string | null },
    ): { kind: "finish_step"; argument: unknown } {
      const { output = null, ...finish } = step;
      const ending = !ends.ends_with_step ? finish : { ...finish, output, told: signals.isAwaited(lease.run_id) };
      return {
        kind: "finish_step",
        argument: runStore.finishStepArgument(lease, ending, clock.now()),
      };
    },
    /** Tells who waits on this node that a run has ended by the rider of a settle, which answered so. */
    noteEnd({ run_id }: RunLease, { run }: Readonly<Record<string, unknown>>): void {
      signals.finished(run_id, run === undefined ? null : detailOf(history.detailsOf(run as history.DetailJson)));
    },
    /** Ends the run; one being cancelled ends `cancelled`, whatever came of it. False: the lease is lost, and nothing was written. */
    finishRun(lease: RunLease, finish: RunFinish): Promise<boolean> {
      return end({ lease, finish, now: clock.now() });
    },
    /** Asks for the run's end: `cancelled` at once while it is queued, else `cancelling` until its worker has stopped. 404, 409. */
    async requestCancel(agent: AgentKey, run_id: string): Promise<RunRecord> {
      if (!isUuid(run_id)) throw errors.notFound("This run");
      const [row] = await runStore.cancelRuns(db, { ...agent, run_id }, clock.now());
      if (row !== undefined) return recordOf(row);
      const found = await history.selectRun(db, agent.user_id, run_id);
      throw found?.agent_id === agent.agent_id ? errors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Cancels the agent's runs that nobody is at yet. */
    async cancelQueued(tx: Tx, agent: AgentKey): Promise<void> {
      await runStore.cancelRuns(tx, { ...agent, run_id: null, queued: true }, clock.now());
    },
    /** Asks for the end of the user's due runs whose input has these fields. */
    async cancelDueWith(tx: Tx, user_id: string, due_with: Readonly<Record<string, unknown>>): Promise<void> {
      await runStore.cancelRuns(tx, { user_id, agent_id: null, run_id: null, due_with }, clock.now());
    },
    /** Asks for the end of all the user's runs. */
    async cancelAll(user_id: string): Promise<void> {
      await runStore.cancelRuns(db, { user_id, agent_id: null, run_id: null }, clock.now());
    },
    /** Resolves when the run has finished, or to false after `timeout_ms` or when `signal` is aborted. */
    waitFinished(user_id: string, run_id: string, timeout_ms: number, signal?: AbortSignal): Promise<boolean> {
      const hasFinished = async (run: RunDetail | null) => run !== null || isFinished({ user_id, run_id });
      return signals.until(hasFinished, { run_id, timeout_ms, signal });
    },
    /**
     * Resolves to `idle` when no run is queued or at work, to `busy` after `timeout_ms`, and to `unattended` when runs have
     * been in the queue for `unattended_ms` with no worker at any of them.
     */
    async untilIdle(timeout_ms: number, unattended_ms = Infinity): Promise<"idle" | "busy" | "unattended"> {
      let is_open = true;
      let attended_at_ms = monotonicMs();
      const settled = await signals.until(
        async () => {
          const { open, attended } = await history.selectOpen(db);
          is_open = open;
          if (attended) attended_at_ms = monotonicMs();
          return !open || monotonicMs() - attended_at_ms >= unattended_ms;
        },
        { run_id: null, timeout_ms },
      );
      if (!is_open) return "idle";
      return settled ? "unattended" : "busy";
    },
    /** When the process is to end: who waits for a run on this node is told at once that it has not finished. */
    endWaits: signals.end,
    /** For a worker: hears of runs to claim and to stop. Signals can get lost, so claim now and then as well. */
    watch: signals.watch,
  };
}

/** By epoch too: a worker that stalled can hold an old lease on a run and a new one. */
function leaseKey({ run_id, epoch }: { run_id: string; epoch: number }): string {
  return `${run_id} ${epoch}`;
}
