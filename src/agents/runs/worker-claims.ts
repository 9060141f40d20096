import { coalesced } from "../../platform/lib/coalesced.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { WorkerOffer } from "./run-signals.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";
import type { WorkerJobs } from "./worker-jobs.ts";

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
  async function takeUp(): Promise<void> {
    is_unsure = false;
    for (const run of await runs.reclaim(worker_id, jobs.ids())) jobs.begin(run);
  }

  async function claim(): Promise<void> {
    if (isDraining()) return;
    if (is_unsure) await takeUp();
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
