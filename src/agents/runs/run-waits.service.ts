import type { RunDetail } from "../../api/contract/runs.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db } from "../../platform/db/db.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import * as history from "./run-history.store.ts";
import type { RunSignals } from "./run-signals.ts";
import { BATCH_LIMIT } from "./runs.types.ts";

/** Waits for runs: for the end of one, or for the end of all. */
export function createRunWaits({ db, signals }: { db: Db; signals: RunSignals }) {
  const isFinished = createBatches(BATCH_LIMIT, (keys: history.RunKey[]) => history.selectFinished(db, keys));
  return {
    /** Resolves when the run has finished, or to false after `timeout_ms` or when `signal` is aborted. */
    waitFinished(user_id: string, run_id: string, timeout_ms: number, signal?: AbortSignal): Promise<boolean> {
      const hasFinished = async (run: RunDetail | null) => run !== null || isFinished({ user_id, run_id });
      return signals.until(hasFinished, { run_id, timeout_ms, signal });
    },
    /**
     * Resolves to `idle` when no run is queued or running, and to `busy` after `timeout_ms`. `unattended`: for
     * `unattended_ms` there have been unfinished runs, but no worker with a valid lease on one.
     */
    async untilIdle(timeout_ms: number, unattended_ms = Infinity): Promise<"idle" | "busy" | "unattended"> {
      let is_open = true;
      let attended_at_ms = monotonicMs();
      const settled = await signals.until(
        async () => {
          const { open, attended } = await history.selectOpen(db);
          is_open = open;
          if (attended) attended_at_ms = monotonicMs();
          return !open || monotonicMs() - attended_at_ms >= unattended_ms;
        },
        { run_id: null, timeout_ms },
      );
      if (!is_open) return "idle";
      return settled ? "unattended" : "busy";
    },
    /** Call it at shutdown: waiters on this node learn at once that their run has not finished. */
    endWaits: signals.end,
    /** For a worker: signals runs to claim and to cancel. Signals can be lost, so the worker must also poll. */
    watch: signals.watch,
  };
}
