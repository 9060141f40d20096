import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import * as runStore from "./run.store.ts";
import type { RunSignals } from "./run-signals.ts";
import {
  BATCH_LIMIT,
  type EndingRun,
  leaseKey,
  type OnRunEnd,
  type RunFailed,
  type RunFinish,
  type RunHasErrors,
  type RunLease,
} from "./runs.types.ts";

/** The effects of a run's end on other modules. */
export interface RunEndDeps {
  /** Called in the transaction that fails a run. It may await SQL only. */
  notify(event: RunFailed, tx: Tx): Promise<void>;
  /** Called in the transaction that ends a run as succeeded with errors. It may await SQL only. */
  onErrors(event: RunHasErrors, tx: Tx): Promise<void>;
  onRunEnd: OnRunEnd;
}

/**
 * Ends runs together with the effects on other modules. A queued run that is cancelled has no such effects and does not
 * come here.
 */
export function createRunEnds(deps: RunEndDeps & { db: Db; clock: Clock; signals: RunSignals }) {
  const { db, clock, notify, onErrors, onRunEnd, signals } = deps;
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
      const run = { user_id, agent_id, run_id, trigger };
      if (status === "failed" && error !== null) await notify({ ...run, error }, tx);
      if (status !== "succeeded" || failed_calls === 0) continue;
      const call = await runStore.selectFailedCall(tx, { user_id, run_id });
      if (call !== undefined) await onErrors({ ...run, failed_steps, call }, tx);
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

export type RunEnds = ReturnType<typeof createRunEnds>;
