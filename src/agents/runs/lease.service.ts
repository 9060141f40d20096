import type { RunError } from "../../api/contract/runs.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import { databaseNowMs } from "../../platform/db/clock-skew.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { type Clock, monotonicMs } from "../../platform/lib/clock.ts";
import { selectOpenActions } from "./actions.store.ts";
import * as history from "./history.store.ts";
import * as runStore from "./run.store.ts";
import { toAction, toClaimedRun, toRunDetail } from "./run-record.ts";
import type { RunSignals } from "./run-signals.ts";
import {
  BATCH_LIMIT,
  type CancelledRun,
  type ClaimedRun,
  type ClaimLimits,
  type EndingRun,
  type FinalOutput,
  type LeaseState,
  type LostRun,
  type OnRunEnd,
  type RunFailed,
  type RunFinish,
  type RunHasErrors,
  type RunLease,
  type RunRequiresAction,
  type RunSucceeded,
  type StepFinish,
  type StepStart,
  type Suspension,
  toLeaseKey,
} from "./runs.types.ts";
import type { RecordedInput } from "./transcript.ts";

/** A worker loses a lease that it has not renewed for this long. Real time. */
export const LEASE_MS = 30_000;
/** Interval at which a worker renews its leases. Three renewals may fail before the lease is lost. */
export const HEARTBEAT_MS = LEASE_MS / 4;
/**
 * contract 6, worker_lost: a run fails after this many lost workers in the middle of a step, with no step finished in
 * between.
 */
const MAX_LOSSES = 3;
const WORKER_LOST: RunError = {
  code: "worker_lost",
  message: "The worker of this run was lost and no other worker resumed it. Run it again.",
};

/** Claims of runs by workers, and runs of lost workers. Leases use the database's real time. */
export function createLeases(deps: {
  db: Db;
  clock: Clock;
  ends: RunEnds;
  onLost(failed: readonly LostRun[]): void;
  onCancelled(run: CancelledRun): void;
}) {
  const { db, clock, ends, onCancelled } = deps;
  const handBack = async (worker_id: string, lease: RunLease | null) => {
    for (const run of await runStore.handBackRuns(db, { worker_id, lease }, clock.now())) onCancelled(run);
  };
  const judgeTime = createLeaseTime({ step_ms: HEARTBEAT_MS, lease_ms: LEASE_MS });
  const reap = async (which: Pick<runStore.Reaping, "unexpired" | "at_work" | "judged_at_ms">) => {
    const { unexpired, at_work, judged_at_ms } = which;
    const now = clock.now();
    const reaping = { max_losses: MAX_LOSSES, lease_ms: LEASE_MS, unexpired, at_work, judged_at_ms, now };
    for (let has_more = true; has_more; ) {
      const reaped = await runStore.reapRuns(db, reaping);
      for (const run of reaped.cancelled) onCancelled(run);
      has_more = reaped.has_more;
    }
    const failures: Error[] = [];
    const given_up: LostRun[] = [];
    for (const run of await runStore.selectGivenUp(db, reaping)) {
      await db
        .transaction((tx) =>
          ends.endRuns(tx, [toEndingRun(run, true)], () => runStore.failLostRun(tx, run, reaping, WORKER_LOST)),
        )
        .then(
          (ended) => {
            if (ended.size > 0) given_up.push(run);
          },
          (error: Error) => failures.push(error), // the other runs do not wait for this one
        );
    }
    if (given_up.length > 0) deps.onLost(given_up);
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
      return rows.map(toClaimedRun);
    },
    /** Whether any run is queued. */
    hasQueued: () => runStore.hasQueued(db),
    /**
     * Claims again the runs of this worker that it does not know, because the answer to their claim was lost. `known`
     * are the runs that it executes.
     */
    async reclaim(worker_id: string, known: readonly string[]): Promise<ClaimedRun[]> {
      return (await runStore.reclaimRuns(db, { worker_id, known, lease_ms: LEASE_MS })).map(toClaimedRun);
    },
    /** Renews the leases; call it every HEARTBEAT_MS. Returns the state of each lease, in the order given. */
    async heartbeat(leases: readonly RunLease[]): Promise<LeaseState[]> {
      if (leases.length === 0) return [];
      const rows = await runStore.renewLeases(db, leases, LEASE_MS);
      const states = new Map<string, LeaseState>(rows.map((row) => [toLeaseKey(row), row.status]));
      return leases.map((lease) => states.get(toLeaseKey(lease)) ?? "lost");
    },
    /**
     * Returns the worker's unfinished runs to the queue at shutdown; another worker resumes each from its last finished
     * step. This includes runs that the worker does not know because the answer to their claim was lost.
     */
    handBack: (worker_id: string): Promise<void> => handBack(worker_id, null),
    /**
     * Returns one run to the queue when the worker has left it. Nothing is written if the run has ended or another
     * worker has claimed it.
     */
    handBackOne: handBack as (worker_id: string, lease: RunLease) => Promise<void>,
    /**
     * Takes runs from lost workers, except the runs `at_work` on the caller: leases of living workers also expire after
     * a sleep of the machine, a database outage or a clock jump. Idempotent; call it every second or so.
     */
    async reap(at_work: readonly string[] = []): Promise<void> {
      const steady_ms = monotonicMs();
      await reap({ unexpired: false, at_work, judged_at_ms: judgeTime(await databaseNowMs(db), steady_ms) });
    },
    /** Takes all running runs. Call it only when their workers are known to have ended. */
    takeBackAll: () => reap({ unexpired: true, at_work: [], judged_at_ms: null }),
  };
}

/**
 * Decides by which time leases expire, because the database's clock, which writes the leases, can be set. If it is set
 * one hour ahead, every lease looks expired, although its worker is alive and renews it at the next heartbeat.
 *
 * The node computes from its own steady clock what the database's clock should show. After a jump it judges leases by
 * that computed time for the length of a lease. A lease that was not renewed in that period is lost.
 *
 * `step_ms`: a smaller difference is not a jump. `lease_ms`: the length of a lease.
 */
export function createLeaseTime({ step_ms, lease_ms }: { step_ms: number; lease_ms: number }) {
  let ahead_ms: number | null = null;
  let stepped_at_ms: number | null = null;

  /**
   * Takes the time of the database's clock and the steady time at which it was read. Returns the time, by the
   * database's clock, at which to judge leases.
   */
  return function judgeTime(database_ms: number, steady_ms: number): number {
    const seen_ms = database_ms - steady_ms;
    if (ahead_ms === null || seen_ms - ahead_ms < step_ms) stepped_at_ms = null;
    else stepped_at_ms ??= steady_ms;
    if (stepped_at_ms === null || steady_ms - stepped_at_ms >= lease_ms) {
      ahead_ms = seen_ms;
      stepped_at_ms = null;
    }
    return steady_ms + (ahead_ms ?? seen_ms);
  };
}

/** The writes of a run at work: its steps, alone or with the ledger's hold and settle, and that it waits. */
export function createRunSteps(deps: {
  db: Db;
  clock: Clock;
  signals: RunSignals;
  ends_with_step: boolean;
  onRequiresAction(event: RunRequiresAction, tx: Tx): Promise<void>;
}) {
  const { db, clock, signals, ends_with_step, onRequiresAction } = deps;
  const start = createBatches(BATCH_LIMIT, (starts: runStore.StartedStep[]) => runStore.startSteps(db, starts));
  return {
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
    /** `startStep` of a model call as a hook of the ledger's hold: its answer is `{done, state}`. */
    startStepHook(lease: RunLease, step: StepStart): { kind: "start_step"; argument: unknown } {
      return { kind: "start_step", argument: runStore.startStepArgument({ lease, step, now: clock.now() }) };
    },
    /**
     * `finishStep` as a hook of the ledger's settle: the step and its charge commit together. With `final`, it is the
     * run's last step and its success ends the run in the same transaction, if that changes nothing outside the run.
     *
     * Pass its answer, `{done, ended}`, to `noteEnd`.
     */
    finishStepHook(
      lease: RunLease,
      step: StepFinish & { final?: FinalOutput | null },
    ): { kind: "finish_step"; argument: unknown } {
      const ending = { final: ends_with_step ? step.final : null, is_awaited: signals.isAwaited(lease.run_id) };
      return { kind: "finish_step", argument: runStore.finishStepArgument(lease, step, clock.now(), ending) };
    },
    /** A hook of the ledger's settle that adds the usage of a call which the step makes beside its work. */
    addUsageHook(
      { user_id, run_id }: RunLease,
      index: number,
      { input_tokens, output_tokens, cost_tokens }: NonNullable<StepFinish["usage"]>,
    ): { kind: "add_usage"; argument: unknown } {
      return { kind: "add_usage", argument: { user_id, run_id, index, input_tokens, output_tokens, cost_tokens } };
    },
    /** Records the last succeeded run that the run's prompts show, before its first call. False: the lease is lost. */
    recordInput: (lease: RunLease, recorded: RecordedInput): Promise<boolean> =>
      runStore.recordInput(db, lease, recorded),
    /**
     * Leaves the run waiting, without a lease, until `resumeRun` queues it again. `record` writes what the run waits for in the
     * same transaction, so that it cannot come before the run waits. Otherwise nothing is written, and it resolves to the reason:
     * `full` when too many of the user's runs wait already.
     */
    async suspendRun(
      lease: RunLease,
      { status, record }: Suspension,
    ): Promise<"suspended" | "full" | "cancelling" | "lost"> {
      const outcome = await db.transaction(async (tx) => {
        if (await runStore.suspendRun(tx, lease, { status, most: USER_ROWS.waiting_runs })) {
          await record(tx);
          const actions = (await selectOpenActions(tx, lease)).map(toAction);
          const { user_id, agent_id, run_id, trigger } = lease;
          await onRequiresAction({ user_id, agent_id, run_id, trigger, actions }, tx);
          return "suspended";
        }
        const [held] = await runStore.renewLeases(tx, [lease], LEASE_MS);
        return held === undefined ? "lost" : held.status === "running" ? "full" : "cancelling";
      });
      if (outcome === "suspended") signals.left(lease.run_id);
      return outcome;
    },
    /** Notifies waiters on this node that a settle's hook has ended a run. Takes the hook's answer. */
    noteEnd({ run_id }: RunLease, { run }: Readonly<Record<string, unknown>>): void {
      signals.left(run_id, run === undefined ? null : toRunDetail(history.parseDetail(run as history.DetailJson)));
    },
  };
}

/** The effects of a run's end on other modules. */
export interface RunEndDeps {
  /** Called in the transaction that fails a run. It may await SQL only. */
  notify(event: RunFailed, tx: Tx): Promise<void>;
  /** Called in the transaction that ends a run as succeeded. It may await SQL only. */
  onSuccess(event: RunSucceeded, tx: Tx): Promise<void>;
  /** Called in the transaction that ends a run as succeeded with errors. It may await SQL only. */
  onErrors(event: RunHasErrors, tx: Tx): Promise<void>;
  onRunEnd: OnRunEnd;
}

/**
 * Ends runs together with the effects on other modules. A queued run that is cancelled has no such effects and does not
 * come here.
 */
export function createRunEnds(deps: RunEndDeps & { db: Db; clock: Clock; signals: RunSignals }) {
  const { db, clock, notify, onSuccess, onErrors, onRunEnd, signals } = deps;
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
    for (const { user_id, agent_id, run_id, trigger, status, error, failed_steps, failed_calls } of ended) {
      if (status === "failed" && error !== null) await notify({ user_id, agent_id, run_id, trigger, error }, tx);
      if (status === "succeeded") await onSuccess({ user_id, agent_id, run_id, trigger }, tx);
      if (status !== "succeeded" || failed_calls === 0) continue;
      const call = await runStore.selectFailedCall(tx, { user_id, run_id });
      if (call !== undefined) await onErrors({ user_id, agent_id, run_id, trigger, failed_steps, call }, tx);
    }
    return new Set(rows.map(toLeaseKey));
  };
  const end = createBatches(BATCH_LIMIT, async (finishes: runStore.FinishedRun[]) => {
    const ending = finishes.map(({ lease, finish }) => toEndingRun(lease, finish.status === "failed"));
    const ended = await db.transaction((tx) => endRuns(tx, ending, () => runStore.finishRuns(tx, finishes)));
    const are_ended = finishes.map(({ lease }) => ended.has(toLeaseKey(lease)));
    for (const [nth, { lease }] of finishes.entries()) if (are_ended[nth]) signals.left(lease.run_id);
    return are_ended;
  });

  return {
    endRuns,
    /**
     * Ends the run. A run that is being cancelled ends `cancelled`, with any outcome. False: the lease is lost, and
     * nothing was written.
     */
    finishRun(lease: RunLease, finish: RunFinish): Promise<boolean> {
      return end({ lease, finish, now: clock.now() });
    },
  };
}

function toEndingRun({ user_id, agent_id, run_id, trigger }: LostRun, fails: boolean): EndingRun {
  return { user_id, agent_id, run_id, trigger, fails };
}

export type RunEnds = ReturnType<typeof createRunEnds>;
