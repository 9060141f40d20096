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

/** A worker loses a lease that it has not renewed for this long. Real time. */
const LEASE_MS = 30_000;
/** Interval at which a worker renews its leases. Three renewals may fail before the lease is lost. */
export const HEARTBEAT_MS = LEASE_MS / 4;
/**
 * contract 6, worker_lost: a run fails after this many lost workers in the middle of a step, with no step finished in
 * between.
 */
const MAX_LOSSES = 3;
/** Limit of the batch that handles simultaneous operations of many runs in one statement. */
const BATCH_LIMIT = 64;
const KEY_REVOKED: RunError = {
  code: "key_revoked",
  message: "The API key that this run counted against was revoked. Run the agent again with another key.",
};
const WORKER_LOST: RunError = {
  code: "worker_lost",
  message: "The process that carried out this run was lost and the run was not taken up again. Run it again.",
};

export interface RunsDeps {
  db: Db;
  clock: Clock;
  /** Called in the transaction that fails a run. It may await SQL only. */
  notify(event: RunFailed, tx: Tx): Promise<void>;
  onRunEnd: OnRunEnd;
  /** Called with the number of runs that this node has failed because their workers were lost. */
  onLost(runs: number): void;
  /**
   * Statements that accept or reject run-nows, in the transaction that queues or begins them; null: all are accepted.
   */
  run_now_statements: RunNowStatements | null;
  /**
   * Whether the statement that records a run's last step may end the run, without `onRunEnd`. The statement that
   * executes the riders then removes `ends` from steps whose run `onRunEnd` must see.
   */
  ends_with_step: boolean;
}

export type Runs = ReturnType<typeof createRuns>;

/** The durable queue of runs and their history. Domain time comes from `clock`; leases use the database's real time. */
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
  /**
   * Ends runs and applies the effects on other modules in one transaction. Resolves to the leases of the ended runs.
   */
  const endRuns = async (
    tx: Tx,
    ending: readonly EndingRun[],
    endThem: () => Promise<runStore.EndedRow[]>,
  ): Promise<Set<string>> => {
    const followUp = await onRunEnd(ending, tx);
    const rows = await endThem();
    const ended = rows.map(({ epoch: _, ...run }) => run);
    await followUp(ended);
    for (const { user_id, agent_id, run_id, trigger, status, error } of ended) {
      if (status === "failed" && error !== null)
        await notify({ user_id, agent_id, kind: "run_failed", run_id, trigger, error }, tx);
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
          (error: Error) => failures.push(error), // the other runs do not wait for this one
        );
    }
    if (given_up > 0) deps.onLost(given_up);
    if (failures[0] !== undefined) throw failures[0];
  };
  return {
    /**
     * Claims up to `most` queued runs for this worker: chats, then run-nows, then due runs, in turn among users and
     * within the limits. `reserved_only`: only runs reserved for this worker.
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
    /**
     * Claims again the runs of this worker that it does not know, because the answer to their claim was lost. `known`
     * are the runs that it executes.
     */
    async reclaim(worker_id: string, known: readonly string[]): Promise<ClaimedRun[]> {
      return (await reclaimRuns(db, { worker_id, known, lease_ms: LEASE_MS })).map(claimedOf);
    },
    /** Renews the leases; call it every HEARTBEAT_MS. Returns the state of each lease, in the order given. */
    async heartbeat(leases: readonly RunLease[]): Promise<LeaseState[]> {
      if (leases.length === 0) return [];
      const rows = await runStore.renewLeases(db, leases, LEASE_MS);
      const states = new Map<string, LeaseState>(rows.map((row) => [leaseKey(row), row.status]));
      return leases.map((lease) => states.get(leaseKey(lease)) ?? "lost");
    },
    /**
     * Returns the worker's unfinished runs to the queue at shutdown; another worker resumes each from its last finished
     * step. This includes runs that the worker does not know because the answer to their claim was lost.
     */
    handBack: (worker_id: string): Promise<void> => handBackRuns(db, { worker_id, lease: null }, clock.now()),
    /**
     * Returns one run to the queue when the worker has left it. Nothing is written if the run has ended or another
     * worker has claimed it.
     */
    handBackOne: (worker_id: string, lease: RunLease): Promise<void> =>
      handBackRuns(db, { worker_id, lease }, clock.now()),
    /**
     * Takes runs from lost workers, except the runs `at_work` on the caller: leases of living workers also expire after
     * a sleep of the machine, a database outage or a clock jump. Idempotent; call it every second or so.
     */
    async reap(at_work: readonly string[] = []): Promise<void> {
      const steady_ms = monotonicMs();
      await reap({ unexpired: false, at_work, judged_at_ms: judgedAt(await selectClock(db), steady_ms) });
    },
    /** Takes all running runs. Call it only when their workers are known to have ended. */
    takeBackAll: () => reap({ unexpired: true, at_work: [], judged_at_ms: null }),
    /**
     * Writes a step's intent before its call; make the call only if the answer is `running`. The intent of a tool call
     * is then on the disk. The intent of a model call need not be, like its hold: it has no meaning without its answer.
     */
    startStep(lease: RunLease, step: StepStart): Promise<LeaseState> {
      return start({ lease, step, now: clock.now() });
    },
    /** Records the outcome of a call that costs nothing. False: the lease is lost, and nothing was written. */
    finishStep(lease: RunLease, step: StepFinish): Promise<boolean> {
      return runStore.finishStep(db, runStore.finishStepArgument(lease, step, clock.now()));
    },
    /** `startStep` of a model call as a rider of the ledger's hold: its answer is `{done, state}`. */
    startStepRider(lease: RunLease, step: StepStart): { kind: "start_step"; argument: unknown } {
      return { kind: "start_step", argument: runStore.startStepArgument({ lease, step, now: clock.now() }) };
    },
    /**
     * `finishStep` as a rider of the ledger's settle: the step and its charge commit together. With `output`, it is the
     * run's last step and its success ends the run in the same transaction, if that changes nothing outside the run.
     *
     * Pass its answer, `{done, ended}`, to `noteEnd`.
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
    /** Notifies waiters on this node that a settle's rider has ended a run. Takes the rider's answer. */
    noteEnd({ run_id }: RunLease, { run }: Readonly<Record<string, unknown>>): void {
      signals.finished(run_id, run === undefined ? null : detailOf(history.detailsOf(run as history.DetailJson)));
    },
    /**
     * Ends the run. A run that is being cancelled ends `cancelled`, with any outcome. False: the lease is lost, and
     * nothing was written.
     */
    finishRun(lease: RunLease, finish: RunFinish): Promise<boolean> {
      return end({ lease, finish, now: clock.now() });
    },
    /**
     * Requests the run's cancellation. A queued run is `cancelled` at once; a running one is `cancelling` until its
     * worker has stopped. 404, 409.
     */
    async requestCancel(agent: AgentKey, run_id: string): Promise<RunRecord> {
      if (!isUuid(run_id)) throw errors.notFound("This run");
      const [row] = await cancelRuns(db, { ...agent, run_id }, clock.now());
      if (row !== undefined) return recordOf(row);
      const found = await history.selectRun(db, agent.user_id, run_id);
      throw found?.agent_id === agent.agent_id ? errors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Cancels the agent's queued runs. */
    async cancelQueued(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelRuns(tx, { ...agent, run_id: null, queued: true }, clock.now());
    },
    /** Requests the cancellation of the user's runs that count against this API key, because it was revoked. */
    async cancelOfKey(tx: Tx, user_id: string, api_key_id: string): Promise<void> {
      const which = { user_id, agent_id: null, run_id: null, with: { api_key_id }, error: KEY_REVOKED };
      await cancelRuns(tx, which, clock.now());
    },
    /** Requests the cancellation of all runs of an agent. */
    async cancelAgent(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelRuns(tx, { ...agent, run_id: null }, clock.now());
    },
    /** Deletes all runs of a user. A worker that executes one is notified and finds its lease lost. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await cancelRuns(tx, { user_id, agent_id: null, run_id: null }, clock.now());
      await deleteUser(tx, user_id);
    },
    /** Requests the cancellation of all runs of the user. */
    async cancelAll(user_id: string): Promise<void> {
      await cancelRuns(db, { user_id, agent_id: null, run_id: null }, clock.now());
    },
    /** Resolves when the run has finished, or to false after `timeout_ms` or when `signal` is aborted. */
    waitFinished(user_id: string, run_id: string, timeout_ms: number, signal?: AbortSignal): Promise<boolean> {
      const hasFinished = async (run: RunDetail | null) => run !== null || isFinished({ user_id, run_id });
      return signals.until(hasFinished, { run_id, timeout_ms, signal });
    },
    /**
     * Resolves to `idle` when no run is queued or running, and to `busy` after `timeout_ms`. `unattended`: for
     * `unattended_ms` there have been unfinished runs, but no worker with a valid lease on one.
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
    /** Call it at shutdown: waiters on this node learn at once that their run has not finished. */
    endWaits: signals.end,
    /** For a worker: signals runs to claim and to cancel. Signals can be lost, so the worker must also poll. */
    watch: signals.watch,
  };
}

/** Includes the epoch, because a stalled worker can hold an old and a new lease on one run. */
function leaseKey({ run_id, epoch }: { run_id: string; epoch: number }): string {
  return `${run_id} ${epoch}`;
}
