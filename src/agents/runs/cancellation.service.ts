import type { AgentKey } from "../../api/contract/agents.ts";
import type { RunError, RunRecord } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid } from "../../platform/lib/ids.ts";
import { cancelRuns, deleteRunsOfUser, type RunSelection } from "./cancel.store.ts";
import type { RunRow } from "./run.store.ts";
import * as history from "./run-history.store.ts";
import { recordOf } from "./run-record.ts";
import type { CancelledRun } from "./runs.types.ts";

const KEY_REVOKED: RunError = {
  code: "key_revoked",
  message: "The API key that this run counted against was revoked. Run the agent again with another key.",
};

/** Cancels one run, or all runs of an agent, a key or a user. */
export function createCancellation(deps: { db: Db; clock: Clock; onCancelled?(run: CancelledRun): void }) {
  const { db, clock, onCancelled = () => {} } = deps;
  /** Runs that were queued have ended. A worker ends the others. */
  const note = (rows: readonly RunRow[]) => {
    for (const { id: run_id, ...run } of rows) if (run.status === "cancelled") onCancelled({ ...run, run_id });
  };
  const cancelIn = async (tx: Tx, which: RunSelection) => {
    const rows = await cancelRuns(tx, which, clock.now());
    tx.afterCommit(() => note(rows));
  };
  return {
    /**
     * Requests the run's cancellation. A queued run is `cancelled` at once; a running one is `cancelling` until its
     * worker has stopped. 404, 409.
     */
    async requestCancel(agent: AgentKey, run_id: string): Promise<RunRecord> {
      if (!isUuid(run_id)) throw errors.notFound("This run");
      const [row] = await cancelRuns(db, { ...agent, run_id }, clock.now());
      if (row !== undefined) {
        note([row]);
        return recordOf(row);
      }
      const found = await history.selectRun(db, agent.user_id, run_id);
      throw found?.agent_id === agent.agent_id ? errors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Cancels the agent's queued runs. */
    async cancelQueued(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelIn(tx, { ...agent, run_id: null, waiting: true });
    },
    /** Requests the cancellation of the user's runs that count against this API key, because it was revoked. */
    async cancelOfKey(tx: Tx, user_id: string, api_key_id: string): Promise<void> {
      const which = { user_id, agent_id: null, run_id: null, with: { api_key_id }, error: KEY_REVOKED };
      await cancelIn(tx, which);
    },
    /** Requests the cancellation of all runs of an agent. */
    async cancelAgent(tx: Tx, agent: AgentKey): Promise<void> {
      await cancelIn(tx, { ...agent, run_id: null });
    },
    /** Deletes all runs of a user. A worker that executes one is notified and finds its lease lost. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      const rows = await cancelRuns(tx, { user_id, agent_id: null, run_id: null }, clock.now());
      await deleteRunsOfUser(tx, user_id);
      tx.afterCommit(() => note(rows.map((row) => ({ ...row, status: "cancelled" }))));
    },
    /** Requests the cancellation of all runs of the user. */
    async cancelAll(user_id: string): Promise<void> {
      note(await cancelRuns(db, { user_id, agent_id: null, run_id: null }, clock.now()));
    },
  };
}
