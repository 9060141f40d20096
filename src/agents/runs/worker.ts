import { SHUTDOWN_SECONDS } from "../../kernel/constants.ts";
import { coalesced } from "../../platform/lib/coalesced.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { HEARTBEAT_MS } from "./lease.service.ts";
import type { WorkerOffer } from "./run-signals.ts";
import type { StopReason } from "./run-work.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";

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
  const { worker_id, runs, limits, reserved_only, drain_seconds, isAwaited, log, inProgress } = deps;
  let is_draining = false;
  let timers: NodeJS.Timeout[] = [];
  let stopWatching = async () => {};

  const isDraining = () => is_draining;
  const jobs = createWorkerJobs({ carryOut, inProgress, onLeft: () => claims.placeFreed() });
  const claims = createWorkerClaims({ worker_id, runs, jobs, limits, reserved_only, isAwaited, isDraining, log });

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
  const hasCaller = ({ run }: Job) => run.has_caller;
  const others = jobs.filter((job) => !hasCaller(job));
  const runs_timer = stopAfter(others, Math.min(SHUTDOWN_SECONDS.runs, drain_seconds));
  const chats_timer = stopAfter(jobs.filter(hasCaller), drain_seconds);
  await Promise.all(jobs.map(({ done }) => done));
  clearTimeout(runs_timer);
  clearTimeout(chats_timer);
}

/** Places become free one by one. The worker fills all places of this period together. */
const GATHER_MS = 10;

/** Fills the free places of a worker with queued runs. */
export function createWorkerClaims(deps: {
  worker_id: string;
  runs: Pick<Runs, "claim" | "reclaim" | "hasQueued">;
  jobs: Pick<WorkerJobs, "begin" | "count" | "ids">;
  limits(): ClaimLimits;
  /** Claims only the runs that are reserved for it, and only while a caller waits for one (`isAwaited`). */
  reserved_only: boolean;
  isAwaited(): boolean;
  /** True from the shutdown on: no run begins. */
  isDraining(): boolean;
  log: Log;
}) {
  const { worker_id, runs, jobs, limits, reserved_only, isAwaited, isDraining, log } = deps;
  /** A claim failed, possibly after its commit. */
  let is_unsure = false;
  /** Runs may be queued. If not, the end of a run needs no claim. */
  let has_queued = true;
  let offered = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  const freePlaces = () => limits().concurrent_runs - jobs.count();

  /** Begins runs whose claim succeeded but whose answer was lost. Otherwise their leases would have to expire first. */
  async function reclaimUnknown(): Promise<void> {
    is_unsure = false;
    for (const run of await runs.reclaim(worker_id, jobs.ids())) jobs.begin(run);
  }

  async function claim(): Promise<void> {
    if (isDraining()) return;
    if (is_unsure) await reclaimUnknown();
    const most = freePlaces();
    if (most <= 0 || (reserved_only && !isAwaited())) return;
    const claimed = await runs.claim(worker_id, most, limits(), reserved_only);
    for (const run of claimed) jobs.begin(run);
    has_queued = claimed.length > 0;
    // A notification meanwhile sets it, too. After a failure the next claim looks again.
    if (!has_queued && (await runs.hasQueued())) has_queued = true;
  }

  const filling = coalesced(() =>
    claim().catch((error: Error) => {
      is_unsure = true;
      log.error({ error }, "no runs could be claimed; the worker tries again at its next turn");
    }),
  );

  function fillSoon(): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      filling.run();
    }, GATHER_MS);
  }

  /** A notification during a claim is not lost: `filling` claims again. */
  function noteQueued(fillNow: () => void): () => void {
    return () => {
      has_queued = true;
      fillNow();
    };
  }

  return {
    /** Claims as many runs as possible. */
    fill: filling.run,
    /** Runs were queued. */
    queued: noteQueued(filling.run),
    /** A run ended on some node, so runs beyond a limit may begin. */
    freed: noteQueued(fillSoon),
    /** A place of this worker became free. */
    placeFreed(): void {
      if (has_queued || is_unsure) fillSoon();
    },
    /** Offers places for run-nows that this node queues. There is one offer at a time. */
    offer(): WorkerOffer | null {
      const most = freePlaces();
      if (isDraining() || reserved_only || most <= 0) return null;
      const taken = Promise.withResolvers<void>();
      offered = taken.promise;
      const begin = (begun: readonly ClaimedRun[] | null) => {
        for (const run of begun ?? []) jobs.begin(run);
        if (begun === null) {
          is_unsure = true;
          filling.run();
        }
        taken.resolve();
      };
      return { worker_id, most, limits: limits(), begin };
    },
    /** Resolves when no claim and no offer is under way. Call it while draining. */
    async settled(): Promise<void> {
      await Promise.all([filling.done(), offered]);
    },
    stop: () => clearTimeout(timer),
  };
}

/** A run that this worker executes. */
export interface Job {
  run: ClaimedRun;
  abort: AbortController;
  /** Resolves when the worker has left the run. */
  done: Promise<void>;
}

/** The runs that one worker executes, through `carryOut`, which must not throw. */
export function createWorkerJobs(deps: {
  carryOut(run: ClaimedRun, signal: AbortSignal): Promise<void>;
  /** Called with the number of runs whenever it changes. */
  inProgress(count: number): void;
  /** Called when the worker has left a run, so that its place is free. */
  onLeft(): void;
}) {
  const jobs = new Map<string, Job>();

  function begin(run: ClaimedRun): void {
    const { run_id, epoch } = run.lease;
    // A late answer to a claim: the run has been claimed again since.
    if ((jobs.get(run_id)?.run.lease.epoch ?? 0) >= epoch) return;
    // A stalled worker may claim a run that it is still executing under a lost lease.
    abort(run_id, "lost");
    const controller = new AbortController();
    const done = deps.carryOut(run, controller.signal).finally(() => {
      if (jobs.get(run_id)?.abort === controller) jobs.delete(run_id);
      deps.inProgress(jobs.size);
      deps.onLeft();
    });
    jobs.set(run_id, { run, abort: controller, done });
    deps.inProgress(jobs.size);
  }

  /** Tells a run to end early. */
  function abort(run_id: string, reason: StopReason): void {
    jobs.get(run_id)?.abort.abort(reason);
  }

  return {
    begin,
    abort,
    count: () => jobs.size,
    ids: () => [...jobs.keys()],
    all: () => [...jobs.values()],
  };
}

export type WorkerJobs = ReturnType<typeof createWorkerJobs>;
