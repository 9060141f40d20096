import { SHUTDOWN_SECONDS } from "../../kernel/constants.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { HEARTBEAT_MS } from "./leases.service.ts";
import type { StopReason } from "./run-work.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";
import { createWorkerClaims } from "./worker-claims.ts";
import { createWorkerJobs, type Job } from "./worker-jobs.ts";

/** Polling interval for the queue and for lost workers' runs, because notifications can be lost. */
const POLL_MS = 1_000;

/** How a worker tells a run to end early. */
export interface WorkControl {
  signal: AbortSignal;
  isDraining(): boolean;
}

/**
 * Claims runs up to the limits, executes them through `carryOut`, and renews their leases. `carryOut` must not throw.
 */
export function createWorker(deps: {
  worker_id: string;
  runs: Runs;
  limits(): ClaimLimits;
  /** Claims only the runs that are reserved for it, and only while a caller waits for one (`isAwaited`). */
  reserved_only: boolean;
  /** The time at shutdown for chats, which are calls in flight. */
  drain_seconds: number;
  isAwaited(): boolean;
  log: Log;
  carryOut(run: ClaimedRun, control: WorkControl): Promise<void>;
  /** Called with the number of running runs whenever it changes. */
  inProgress(count: number): void;
}) {
  const { worker_id, runs, drain_seconds, log, inProgress } = deps;
  let is_draining = false;
  let timers: NodeJS.Timeout[] = [];
  let stopWatching = async () => {};

  const isDraining = () => is_draining;
  const jobs = createWorkerJobs({ carryOut, inProgress, onLeft: () => claims.placeFreed() });
  const claims = createWorkerClaims({ ...deps, jobs, isDraining });

  async function carryOut(run: ClaimedRun, signal: AbortSignal): Promise<void> {
    await deps.carryOut(run, { signal, isDraining });
    if (is_draining) await handBack(run);
  }

  /**
   * Hands back a run at shutdown without waiting for the steps of other runs. If this fails, `stop` hands it back at
   * the end.
   */
  async function handBack({ lease }: ClaimedRun): Promise<void> {
    await runs
      .handBackOne(worker_id, lease)
      .catch((error: Error) => log.error({ run_id: lease.run_id, error }, "a run was not handed back yet"));
  }

  async function poll(): Promise<void> {
    await runs.reap(jobs.ids());
    claims.fill();
  }

  async function heartbeat(): Promise<void> {
    const leases = jobs.all().map(({ run }) => run.lease);
    const states = await runs.heartbeat(leases);
    for (const [index, state] of states.entries()) {
      if (state !== "running") jobs.abort(leases[index]?.run_id ?? "", state);
    }
  }

  function repeat(work: () => Promise<void>, every_ms: number): NodeJS.Timeout {
    return setInterval(
      () => work().catch((error: Error) => log.error({ error }, "a worker's turn failed; the next one tries again")),
      every_ms,
    );
  }

  return {
    /** Starts to claim runs. */
    async start(): Promise<void> {
      const { offer, queued, freed } = claims;
      const cancelling = (run_id: string) => jobs.abort(run_id, "cancelling");
      stopWatching = await runs.watch({ offer, queued, freed, cancelling });
      timers = [repeat(poll, POLL_MS), repeat(heartbeat, HEARTBEAT_MS)];
      claims.fill();
    },
    /**
     * Gives running steps a limited time to finish, and hands each unfinished run back as soon as its step has ended.
     * At the end it also hands back runs whose claim's answer was lost.
     */
    async stop(): Promise<void> {
      is_draining = true;
      await claims.settled();
      await leaveAll(jobs.all(), drain_seconds);
      claims.stop();
      for (const timer of timers) clearInterval(timer);
      await stopWatching();
      await runs.handBack(worker_id).catch((error: Error) => {
        // An unavailable database must not block the shutdown or the settling of calls in flight.
        log.error({ error }, "runs were not given back; they go on when their leases are over");
      });
      runs.endWaits();
    },
  };
}

/** Resolves when the worker has left all runs. It aborts runs that take too long; chats have the whole drain. */
async function leaveAll(jobs: readonly Job[], drain_seconds: number): Promise<void> {
  const stopAfter = (late: readonly Job[], seconds: number) =>
    setTimeout(() => {
      for (const { abort } of late) abort.abort("stopping" satisfies StopReason);
    }, seconds * 1000);
  const isChat = ({ run }: Job) => run.trigger === "chat";
  const others = jobs.filter((job) => !isChat(job));
  const runs_timer = stopAfter(others, Math.min(SHUTDOWN_SECONDS.runs, drain_seconds));
  const chats_timer = stopAfter(jobs.filter(isChat), drain_seconds);
  await Promise.all(jobs.map(({ done }) => done));
  clearTimeout(runs_timer);
  clearTimeout(chats_timer);
}
