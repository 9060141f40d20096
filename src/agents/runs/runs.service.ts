import type { Db } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { createCancellation } from "./cancellation.service.ts";
import { createEnqueue } from "./enqueue.service.ts";
import { createFreeRuns } from "./free-runs.store.ts";
import { createHistory } from "./history.service.ts";
import { createLeases, LEASE_MS } from "./leases.service.ts";
import { createPruning } from "./pruning.ts";
import { createRunEnds, type RunEndDeps } from "./run-ends.ts";
import { createRunSignals } from "./run-signals.ts";
import { createRunSteps } from "./run-steps.service.ts";
import { createRunWaits } from "./run-waits.service.ts";
import { BATCH_LIMIT, type CancelledRun, type LostRun, type RunNowStatements } from "./runs.types.ts";

export interface RunsDeps extends RunEndDeps {
  /** The worker that alone executes the run-nows of this node; absent: any worker does. */
  reserve_for?: string | null;
  db: Db;
  clock: Clock;
  /** Called with the runs that this node has failed because their workers were lost. */
  onLost(failed: readonly LostRun[]): void;
  /** Called with a run that was cancelled while no worker executed it, after the commit. */
  onCancelled?(run: CancelledRun): void;
  /**
   * Statements that accept or reject run-nows, in the transaction that queues or begins them; null: all are accepted.
   */
  run_now_statements: RunNowStatements | null;
  /**
   * Whether the statement that records a run's last step may end the run, without `onRunEnd`. The statement that
   * executes the hooks then removes `ends` from steps whose run `onRunEnd` must see.
   */
  ends_with_step: boolean;
}

/** The durable queue of runs and their history. Domain time comes from `clock`; leases use the database's real time. */
export function createRuns(deps: RunsDeps) {
  const { db, clock } = deps;
  const signals = createRunSignals(db);
  const ends = createRunEnds({ ...deps, signals });
  return {
    ...createEnqueue({
      db,
      clock,
      lease_ms: LEASE_MS,
      offer: signals.offer,
      statements: deps.run_now_statements,
      reserve_for: deps.reserve_for ?? null,
    }),
    ...createLeases({ ...deps, ends }),
    ...createRunSteps({ ...deps, signals }),
    finishRun: ends.finishRun,
    ...createCancellation(deps),
    ...createRunWaits({ db, signals }),
    ...createPruning(db),
    ...createFreeRuns({ db, clock }),
    ...createHistory({ db, clock, signals, batch_limit: BATCH_LIMIT }),
  };
}

export type Runs = ReturnType<typeof createRuns>;
