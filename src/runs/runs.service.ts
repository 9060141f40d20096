import type { AgentKey } from "../contract/agents.ts";
import type { RunDetail, RunError, RunRecord } from "../contract/runs.ts";
import { errors } from "../errors.ts";
import { createBatches } from "../platform/batches.ts";
import { type Clock, monotonicMs } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { isUuid } from "../platform/ids.ts";
import { cancelRuns, deleteUser } from "./cancel.store.ts";
import { createEnqueue } from "./enqueue.service.ts";
import { createHistory } from "./history.service.ts";
import { createLeaseTime } from "./lease-time.ts";
import { createPruning } from "./pruning.ts";
import { handBackRuns, reclaimRuns, selectClock } from "./reclaim.store.ts";
import * as runStore from "./run.store.ts";
import * as history from "./run-history.store.ts";
import { claimedOf, detailOf, recordOf } from "./run-record.ts";
import { createRunSignals, type RunSignals } from "./run-signals.ts";
import type {
  ClaimedRun,
  ClaimLimits,
  EndingRun,
  LeaseState,
  OnRunEnd,
  RunFailed,
  RunFinish,
  RunLease,
  RunNowStatements,
  StepFinish,
  StepStart,
} from "./runs.types.ts";

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

export interface RunsDeps {
  db: Db;
  clock: Clock;
  /** Runs in the transaction in which a run fails: it may await SQL only. */
  notify(event: RunFailed, tx: Tx): Promise<void>;
  onRunEnd: OnRunEnd;
  /** Called with the number of runs that this node has failed because their workers were lost. */
  onLost(runs: number): void;
  /** Statements that decide on run-nows, in the transaction that queues or begins them; null: every run-now may be queued. */
  run_now_statements: RunNowStatements | null;
  /**
   * Whether a run may end in the statement that records its last step, without `onRunEnd`. The statement that carries out
   * the riders then removes `ends` from steps whose run `onRunEnd` must see.
   */
  ends_with_step: boolean;
}

export type Runs = ReturnType<typeof createRuns>;

/** The durable queue of runs and their history. Domain time is `clock`'s; leases are the database's real time. */
export function createRuns(deps: RunsDeps) {
  const { db, clock } = deps;
  const signals = createRunSignals(db);
  return {
    ...createEnqueue({ db, clock, lease_ms: LEASE_MS, offer: signals.offer, statements: deps.run_now_statements }),
    ...createQueue({ ...deps, signals }),
    ...createPruning(db),
    ...createHistory({ db, clock, signals, batch_limit: BATCH_LIMIT }),
  };
}

function createQueue(deps: RunsDeps & { signals: RunSignals }) {
  const { db, clock, notify, onRunEnd, signals, ends_with_step } = deps;
  const start = createBatches(BATCH_LIMIT, (starts: runStore.StartedStep[]) => runStore.startSteps(db, starts));
  const isFinished = createBatches(BATCH_LIMIT, (keys: history.RunKey[]) => history.selectFinished(db, keys));
  /** Ends runs together with what their end means to others: all of it or nothing. Resolves to the leases of those that have ended. */
  const endRuns = async (
    tx: Tx,
    ending: readonly EndingRun[],
    endThem: () => Promise<runStore.EndedRow[]>,
  ): Promise<Set<string>> => {
    const followUp = await onRunEnd(ending, tx);
    const rows = await endThem();
    const ended = rows.map(({ epoch: _, ...run }) => run);
    await followUp(ended);
    for (const { user_id, agent_id, run_id, trigger, error } of ended) {
      if (error !== null) await notify({ user_id, agent_id, kind: "run_failed", run_id, trigger, error }, tx);
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
    if (given_up > 0) deps.onLost(given_up);
    if (failures[0] !== undefined) throw failures[0];
  };
  return {
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
      const ending = !ends_with_step ? finish : { ...finish, output, told: signals.isAwaited(lease.run_id) };
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
      const [row] = await cancelRuns(db, { ...agent, run_id }, clock.now());
      if (row !== undefined) return recordOf(row);
      const found = await history.selectRun(db, agent.user_id, run_id);
      throw found?.agent_id === agent.agent_id ? errors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Cancels the agent's runs that nobody is at yet. */
    async cancelQueued(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelRuns(tx, { ...agent, run_id: null, queued: true }, clock.now());
    },
    /** Asks for the end of the user's due runs whose input has these fields. */
    async cancelDueWith(tx: Tx, user_id: string, due_with: Readonly<Record<string, unknown>>): Promise<void> {
      await cancelRuns(tx, { user_id, agent_id: null, run_id: null, due_with }, clock.now());
    },
    /** Asks for the end of all runs of an agent. */
    async cancelAgent(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelRuns(tx, { ...agent, run_id: null }, clock.now());
    },
    /** Deletes all runs of a user. A worker that is executing one is signalled and finds its lease lost. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await cancelRuns(tx, { user_id, agent_id: null, run_id: null }, clock.now());
      await deleteUser(tx, user_id);
    },
    /** Asks for the end of all the user's runs. */
    async cancelAll(user_id: string): Promise<void> {
      await cancelRuns(db, { user_id, agent_id: null, run_id: null }, clock.now());
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
