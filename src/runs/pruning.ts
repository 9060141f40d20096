import type { AgentKey } from "../contract/agents.ts";
import type { Db, Instant, Tx } from "../platform/db.ts";
import { deleteRuns, isPruning, NO_RUN, type OldRun, selectOldRuns, selectRunsOf } from "./prune.store.ts";
import type { RunKey } from "./run-history.store.ts";

/** Looked at in one transaction: a run has many steps, and some are large. */
const BATCH = 200;

/** Called before runs are deleted, in the same transaction: it may await SQL only. */
export type OnPrune = (tx: Tx, runs: readonly RunKey[]) => Promise<void>;

/** Deletes what is too old, one batch a call. Nothing that decides what runs next is in these rows: `next_run_at` only goes on. */
export function createPruning(db: Db) {
  return {
    /**
     * Finished runs and their steps, but for the newest of each agent, which `last_run` tells of. Resolves to where to go
     * on; null: there are no more, or another node is at it.
     */
    pruneRuns: (
      { before, after }: { before: Instant; after: OldRun | null },
      onPrune: OnPrune,
    ): Promise<OldRun | null> =>
      db.transaction(async (tx) => {
        if (!(await isPruning(tx))) return null;
        const old = await selectOldRuns(tx, { before, after: after ?? NO_RUN, limit: BATCH });
        const runs = old.flatMap(({ is_last, user_id, run_id }) => (is_last ? [] : [{ user_id, run_id }]));
        if (runs.length > 0) {
          await onPrune(tx, runs);
          await deleteRuns(tx, runs);
        }
        return old.length < BATCH ? null : (old.at(-1) ?? null);
      }),
    /** All finished runs of agents that are no more, with their steps. True: there may be more. */
    pruneRunsOf: (agents: readonly AgentKey[]): Promise<boolean> =>
      db.transaction(async (tx) => {
        const runs = await selectRunsOf(tx, agents, BATCH);
        if (runs.length > 0) await deleteRuns(tx, runs);
        return runs.length === BATCH;
      }),
  };
}
