import { SHUTDOWN_SECONDS } from "../constants.ts";
import type { Log } from "../platform/log.ts";
import type { StopReason } from "./run-work.ts";
import { HEARTBEAT_MS, type Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";

/** Notifications can get lost: the queue is looked at, and lost workers' runs are taken back, this often. */
const POLL_MS = 1_000;
/** Places become free one by one, and are filled together. */
const GATHER_MS = 10;

/** How a worker tells a run to end early. */
export interface WorkControl {
  signal: AbortSignal;
  isDraining(): boolean;
}

/** A run at work here. */
interface Job {
  run: ClaimedRun;
  abort: AbortController;
  done: Promise<void>;
}

/**
 * Claims runs and has them carried out, as many at a time as the limits allow, and keeps their leases alive. `carryOut`
 * must not throw.
 */
export function createWorker(deps: {
  worker_id: string;
  runs: Runs;
  limits: ClaimLimits;
  /** Takes nothing but the chats of this very node, and looks for those only while somebody waits for one. */
  chats_only: boolean;
  isAwaited(): boolean;
  log: Log;
  carryOut(run: ClaimedRun, control: WorkControl): Promise<void>;
  /** Hears how many runs are at work here, whenever that changes. */
  inProgress(count: number): void;
}) {
  const { worker_id, runs, limits, chats_only, isAwaited, log, carryOut, inProgress } = deps;
  const jobs = new Map<string, Job>();
  let draining = false;
  /** A claim failed, maybe after it had been made. */
  let unsure = false;
  let filling: Promise<void> | null = null;
  let fill_again = false;
  let offered = Promise.resolve();
  let filling_soon: NodeJS.Timeout | undefined;
  let timers: NodeJS.Timeout[] = [];
  let stopWatching = async () => {};

  /** A run that was left because the process is to end waits for nobody else's step. What fails here is done at the very end. */
  const handBack = async ({ lease }: ClaimedRun) => {
    if (!draining) return;
    await runs
      .handBackOne(worker_id, lease)
      .catch((error: Error) =>
        log.error({ run_id: lease.run_id, error: error.message }, "a run was not handed back yet"),
      );
  };
  const begin = (run: ClaimedRun) => {
    const { run_id, epoch } = run.lease;
    // The answer to a claim comes after all, and it has been made anew since.
    if ((jobs.get(run_id)?.run.lease.epoch ?? 0) >= epoch) return;
    // A worker that stalled may claim a run anew that it is still at under a lease which it has lost.
    jobs.get(run_id)?.abort.abort("lost" satisfies StopReason);
    const abort = new AbortController();
    const left = carryOut(run, { signal: abort.signal, isDraining: () => draining }).then(() => handBack(run));
    const done = left.finally(() => {
      if (jobs.get(run_id)?.abort === abort) jobs.delete(run_id);
      inProgress(jobs.size);
      fillSoon();
    });
    jobs.set(run_id, { run, abort, done });
    inProgress(jobs.size);
  };
  /** Begins what was claimed for this worker without its having heard of it: its leases would have to run out first. */
  const takeUp = async () => {
    unsure = false;
    for (const run of await runs.reclaim(worker_id, [...jobs.keys()])) begin(run);
  };
  const claim = async () => {
    if (draining) return;
    if (unsure) await takeUp();
    const most = limits.concurrent_runs - jobs.size;
    if (most <= 0 || (chats_only && !isAwaited())) return;
    for (const run of await runs.claim(worker_id, most, limits, chats_only)) begin(run);
  };
  /** Claims what there is; when one is at it already, it looks again after that. */
  const fill = () => {
    if (filling !== null) {
      fill_again = true;
      return;
    }
    fill_again = false;
    filling = claim()
      .catch((error: Error) => {
        unsure = true;
        log.error({ error: error.message }, "no runs could be claimed");
      })
      .finally(() => {
        filling = null;
        if (fill_again) fill();
      });
  };
  const fillSoon = () => {
    filling_soon ??= setTimeout(() => {
      filling_soon = undefined;
      fill();
    }, GATHER_MS);
  };
  /** Places for run-nows that are being queued on this node; one offer at a time. */
  const offer = () => {
    const most = limits.concurrent_runs - jobs.size;
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
    return { worker_id, most, limits, begin: beginAll };
  };
  const end = (run_id: string, reason: StopReason) => jobs.get(run_id)?.abort.abort(reason);
  const heartbeat = async () => {
    const leases = [...jobs.values()].map(({ run }) => run.lease);
    const states = await runs.heartbeat(leases);
    for (const [index, state] of states.entries()) if (state !== "running") end(leases[index]?.run_id ?? "", state);
  };
  const repeat = (work: () => Promise<void>, every_ms: number) =>
    setInterval(
      () => work().catch((error: Error) => log.error({ error: error.message }, "a worker's turn failed")),
      every_ms,
    );

  return {
    /** Begins to claim. */
    async start(): Promise<void> {
      stopWatching = await runs.watch({
        offer,
        queued: fill,
        freed: fillSoon,
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
     * Lets steps in progress finish, for a while, and hands each run that is left unfinished back to the queue as soon as
     * it is left; at last what it was given without its knowing.
     */
    async stop(): Promise<void> {
      draining = true;
      await Promise.all([filling, offered]);
      const unfinished = [...jobs.values()];
      const give_up = setTimeout(() => {
        for (const { abort } of unfinished) abort.abort("stopping" satisfies StopReason);
      }, SHUTDOWN_SECONDS.runs * 1000);
      await Promise.all(unfinished.map(({ done }) => done));
      clearTimeout(give_up);
      clearTimeout(filling_soon);
      for (const timer of timers) clearInterval(timer);
      await stopWatching();
      await runs.handBack(worker_id).catch((error: Error) => {
        // A database that is away keeps no process from its end, nor from settling what is in flight.
        log.error({ error: error.message }, "runs were not given back; they go on when their leases are over");
      });
      runs.endWaits();
    },
  };
}
