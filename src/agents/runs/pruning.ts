import type { AgentKey } from "../../api/contract/agents.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import {
  deleteRuns,
  NO_RUN,
  type OldRun,
  selectAgentsWithRuns,
  selectOldRuns,
  selectRunsOf,
  selectUnpaidRuns,
  takePruningLock,
} from "./prune.store.ts";
import type { RunKey } from "./run-history.store.ts";

/** Runs examined in one transaction. A run has many steps, and some are large. */
const BATCH = 200;

/** Called before runs are deleted, in the same transaction: it may await SQL only. */
export type OnPrune = (tx: Tx, runs: readonly RunKey[]) => Promise<void>;

/** Deletes old runs, one batch per call. Scheduling does not read these rows: `next_run_at` only moves forward. */
export function createPruning(db: Db) {
  return {
    /**
     * Deletes finished runs and their steps, except each agent's newest run, which `last_run` shows. Resolves to the
     * cursor of the next batch; null: no old runs remain, or another node is pruning.
     */
    pruneRuns: (
      { before, after }: { before: Instant; after: OldRun | null },
      onPrune: OnPrune,
    ): Promise<OldRun | null> =>
      db.transaction(async (tx) => {
        if (!(await takePruningLock(tx))) return null;
        const old = await selectOldRuns(tx, { before, after: after ?? NO_RUN, limit: BATCH });
        const runs = old.flatMap(({ is_last, user_id, run_id }) => (is_last ? [] : [{ user_id, run_id }]));
        await pruneNow(tx, runs, onPrune);
        return old.length < BATCH ? null : (old.at(-1) ?? null);
      }),
    /**
     * Deletes runs that cost nothing and are older than the newest `USER_ROWS.unpaid_runs` failed and cancelled ones of
     * their user, except each agent's newest run. True: there may be more.
     */
    pruneUnpaidRuns: (onPrune: OnPrune): Promise<boolean> =>
      db.transaction(async (tx) => {
        if (!(await takePruningLock(tx))) return false;
        const runs = await selectUnpaidRuns(tx, { kept: USER_ROWS.unpaid_runs, limit: BATCH });
        await pruneNow(tx, runs, onPrune);
        return runs.length === BATCH;
      }),
    /** The ids of those agents that have runs. The newest run of an agent is kept until the agent is deleted. */
    agentsWithRuns: (agents: readonly AgentKey[], sql: Sql = db): Promise<ReadonlySet<string>> =>
      selectAgentsWithRuns(sql, agents),
    /** Deletes all finished runs of deleted agents, with their steps. True: there may be more. */
    pruneRunsOf: (agents: readonly AgentKey[]): Promise<boolean> =>
      db.transaction(async (tx) => {
        const runs = await selectRunsOf(tx, agents, BATCH);
        if (runs.length > 0) await deleteRuns(tx, runs);
        return runs.length === BATCH;
      }),
  };
}

async function pruneNow(tx: Tx, runs: readonly RunKey[], onPrune: OnPrune): Promise<void> {
  if (runs.length === 0) return;
  await onPrune(tx, runs);
  await deleteRuns(tx, runs);
}
