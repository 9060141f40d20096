import type { Db, Reader, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { createDecisions } from "./decisions.service.ts";
import { createHistory } from "./history.service.ts";
import { createLeases, createRunEnds, createRunSteps, LEASE_MS, type RunEndDeps } from "./lease.service.ts";
import { createFreeRuns, createPruning } from "./pruning.store.ts";
import { createResumeAndCancel, createStart } from "./queue.service.ts";
import { createRunSignals, createRunWaits } from "./run-signals.ts";
import {
  BATCH_LIMIT,
  type CancelledRun,
  type LostRun,
  type RunRequiresAction,
  type StartStatements,
} from "./runs.types.ts";

export interface RunsDeps extends RunEndDeps {
  /** The worker that alone executes the run-nows of this node; absent: any worker does. */
  reserve_for?: string | null;
  db: Db;
  clock: Clock;
  /** The database for long reads. */
  reads(): Promise<Reader>;
  /** Called with the runs that this node has failed because their workers were lost. */
  onLost(failed: readonly LostRun[]): void;
  /** Called in the transaction that leaves a run waiting, once for all that it asks. It may await SQL only. */
  onRequiresAction(event: RunRequiresAction, tx: Tx): Promise<void>;
  /** Called with a run that was cancelled while no worker executed it, after the commit. */
  onCancelled?(run: CancelledRun): void;
  /** Statements that accept or reject run-nows and chats, in the transaction that starts them. */
  start_statements: StartStatements;
  /**
   * Whether the statement that records a run's last step may end the run, without `onRunEnd`. The statement that
   * executes the hooks then removes `ends` from steps whose run `onRunEnd` must see.
   */
  ends_with_step: boolean;
}

/** The durable queue of runs and their history. Domain time comes from `clock`; leases use the database's real time. */
export function createRuns(deps: RunsDeps) {
  const { db, clock, onLost, onCancelled = () => {}, notify, onSuccess, onErrors, onRunEnd, ends_with_step } = deps;
  const signals = createRunSignals(db);
  const ends = createRunEnds({ db, clock, signals, notify, onSuccess, onErrors, onRunEnd });
  return {
    ...createStart({
      db,
      clock,
      lease_ms: LEASE_MS,
      offer: signals.offer,
      statements: deps.start_statements,
      reserve_for: deps.reserve_for ?? null,
    }),
    ...createLeases({ db, clock, ends, onLost, onCancelled }),
    ...createRunSteps({ db, clock, signals, ends_with_step, onRequiresAction: deps.onRequiresAction }),
    ...createDecisions({ db, clock }),
    finishRun: ends.finishRun,
    ...createResumeAndCancel({ db, clock, onCancelled }),
    ...createRunWaits({ db, signals }),
    ...createPruning(db),
    ...createFreeRuns({ db, clock }),
    ...createHistory({ db, clock, signals, batch_limit: BATCH_LIMIT, reads: deps.reads }),
  };
}

export type Runs = ReturnType<typeof createRuns>;
