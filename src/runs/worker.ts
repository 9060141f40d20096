import { SHUTDOWN_SECONDS } from "../constants.ts";
import type { Log } from "../platform/log.ts";
import { HEARTBEAT_MS } from "./leases.service.ts";
import type { StopReason } from "./run-work.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";

/** Polling interval for the queue and for lost workers' runs, because notifications can be lost. */
const POLL_MS = 1_000;
/** Places become free one by one. The worker fills all places of this period together. */
const GATHER_MS = 10;

/** How a worker tells a run to end early. */
export interface WorkControl {
  signal: AbortSignal;
  isDraining(): boolean;
}

/** A run that this worker executes. */
interface Job {
  run: ClaimedRun;
  abort: AbortController;
  done: Promise<void>;
}

/**
 * Claims runs up to the limits, executes them through `carryOut`, and renews their leases. `carryOut` must not throw.
 */
export function createWorker(deps: {
  worker_id: string;
  runs: Runs;
  limits(): ClaimLimits;
  /** Claims only the chats of this node, and only while a caller waits for one. */
  chats_only: boolean;
  /** The time at shutdown for chats, which are calls in flight. */
  drain_seconds: number;
  isAwaited(): boolean;
  log: Log;
  carryOut(run: ClaimedRun, control: WorkControl): Promise<void>;
  /** Called with the number of running runs whenever it changes. */
  inProgress(count: number): void;
}) {
  const { worker_id, runs, limits, chats_only, drain_seconds, isAwaited, log, carryOut, inProgress } = deps;
  const jobs = new Map<string, Job>();
  let draining = false;
  /** A claim failed, possibly after its commit. */
  let unsure = false;
  /** Runs may be queued. If not, the end of a run needs no claim. */
  let has_queued = true;
  let filling: Promise<void> | null = null;
  let fill_again = false;
  let offered = Promise.resolve();
  let filling_soon: NodeJS.Timeout | undefined;
  let timers: NodeJS.Timeout[] = [];
  let stopWatching = async () => {};

  /**
   * Hands back a run at shutdown without waiting for the steps of other runs. If this fails, `stop` hands it back at
   * the end.
   */
  const handBack = async ({ lease }: ClaimedRun) => {
    if (!draining) return;
    await runs
      .handBackOne(worker_id, lease)
      .catch((error: Error) => log.error({ run_id: lease.run_id, error }, "a run was not handed back yet"));
  };
  const begin = (run: ClaimedRun) => {
    const { run_id, epoch } = run.lease;
    // A late answer to a claim: the run has been claimed again since.
    if ((jobs.get(run_id)?.run.lease.epoch ?? 0) >= epoch) return;
    // A stalled worker may claim a run that it is still executing under a lost lease.
    jobs.get(run_id)?.abort.abort("lost" satisfies StopReason);
    const abort = new AbortController();
    const left = carryOut(run, { signal: abort.signal, isDraining: () => draining }).then(() => handBack(run));
    const done = left.finally(() => {
      if (jobs.get(run_id)?.abort === abort) jobs.delete(run_id);
      inProgress(jobs.size);
      if (has_queued || unsure) fillSoon();
    });
    jobs.set(run_id, { run, abort, done });
    inProgress(jobs.size);
  };
  /** Begins runs whose claim succeeded but whose answer was lost. Otherwise their leases would have to expire first. */
  const takeUp = async () => {
    unsure = false;
    for (const run of await runs.reclaim(worker_id, [...jobs.keys()])) begin(run);
  };
  const claim = async () => {
    if (draining) return;
    if (unsure) await takeUp();
    const most = limits().concurrent_runs - jobs.size;
    if (most <= 0 || (chats_only && !isAwaited())) return;
    const claimed = await runs.claim(worker_id, most, limits(), chats_only);
    for (const run of claimed) begin(run);
    has_queued = claimed.length > 0;
    // A notification meanwhile sets it, too. After a failure the next claim looks again.
    if (!has_queued && (await runs.hasQueued())) has_queued = true;
  };
  /** Claims as many runs as possible. A call during a claim makes it claim again afterwards. */
  const fill = () => {
    if (filling !== null) {
      fill_again = true;
      return;
    }
    fill_again = false;
    filling = claim()
      .catch((error: Error) => {
        unsure = true;
        log.error({ error }, "no runs could be claimed; the worker tries again at its next turn");
      })
      .finally(() => {
        filling = null;
        if (fill_again) fill();
      });
  };
  /** A notification during a claim is not lost: `fill` claims again. */
  const noteQueued = (fillNow: () => void) => () => {
    has_queued = true;
    fillNow();
  };
  const fillSoon = () => {
    filling_soon ??= setTimeout(() => {
      filling_soon = undefined;
      fill();
    }, GATHER_MS);
  };
  /** Offers places for run-nows that this node queues. There is one offer at a time. */
  const offer = () => {
    const most = limits().concurrent_runs - jobs.size;
    if (draining || chats_only || most <= 0) return null;
    const taken = Promise.withResolvers<void>();
    offered = taken.promise;
    const beginAll = (runs: readonly ClaimedRun[] | null) => {
      for (const run of runs ?? []) begin(run);
      if (runs === null) {
        unsure = true;
        fill();
      }
      taken.resolve();
    };
    return { worker_id, most, limits: limits(), begin: beginAll };
  };
  const end = (run_id: string, reason: StopReason) => jobs.get(run_id)?.abort.abort(reason);
  const heartbeat = async () => {
    const leases = [...jobs.values()].map(({ run }) => run.lease);
    const states = await runs.heartbeat(leases);
    for (const [index, state] of states.entries()) if (state !== "running") end(leases[index]?.run_id ?? "", state);
  };
  const repeat = (work: () => Promise<void>, every_ms: number) =>
    setInterval(
      () => work().catch((error: Error) => log.error({ error }, "a worker's turn failed; the next one tries again")),
      every_ms,
    );

  return {
    /** Starts to claim runs. */
    async start(): Promise<void> {
      stopWatching = await runs.watch({
        offer,
        queued: noteQueued(fill),
        freed: noteQueued(fillSoon),
        cancelling: (run_id) => end(run_id, "cancelling"),
      });
      const poll = async () => {
        await runs.reap([...jobs.keys()]);
        fill();
      };
      timers = [repeat(poll, POLL_MS), repeat(heartbeat, HEARTBEAT_MS)];
      fill();
    },
    /**
     * Gives running steps a limited time to finish, and hands each unfinished run back as soon as its step has ended.
     * At the end it also hands back runs whose claim's answer was lost.
     */
    async stop(): Promise<void> {
      draining = true;
      await Promise.all([filling, offered]);
      const unfinished = [...jobs.values()];
      const giveUp = (jobs: Job[], after_s: number) =>
        setTimeout(() => {
          for (const { abort } of jobs) abort.abort("stopping" satisfies StopReason);
        }, after_s * 1000);
      const isChat = ({ run }: Job) => run.trigger === "chat";
      const others = unfinished.filter((job) => !isChat(job));
      const runs_timer = giveUp(others, Math.min(SHUTDOWN_SECONDS.runs, drain_seconds));
      const chats_timer = giveUp(unfinished.filter(isChat), drain_seconds);
      await Promise.all(unfinished.map(({ done }) => done));
      clearTimeout(runs_timer);
      clearTimeout(chats_timer);
      clearTimeout(filling_soon);
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
