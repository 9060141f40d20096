import type { RunDetail } from "../../api/contract/runs.ts";
import type { Db } from "../../platform/db/db.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { selectCancelling } from "./run-history.store.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";

/** Free places of a worker for runs that its own node queues. Such runs begin without a separate claim. */
export interface WorkerOffer {
  worker_id: string;
  most: number;
  limits: ClaimLimits;
  /** Call it once with the claimed runs; null: the claim failed, or its answer was lost. */
  begin(runs: readonly ClaimedRun[] | null): void;
}

/** The signals that a worker receives. */
export interface WorkerSignals {
  /** Called when this node queues runs. Null: the worker has no free place. */
  offer(): WorkerOffer | null;
  /** There may be runs to claim. */
  queued(): void;
  /** A run has finished on some node, so a place is free. */
  freed(): void;
  /** The run has a cancel request. */
  cancelling(run_id: string): void;
}

/** Polling interval for waiters and for runs to cancel, because notifications can be lost with a connection. */
const POLL_MS = 1_000;
const ANY_RUN = "";

/** The run to wait for, and how long. */
export interface Wait {
  /** null: any run. */
  run_id: string | null;
  timeout_ms: number;
  /** The run cannot have ended yet, and this node will be notified of its end. The first check is skipped. */
  is_open?: boolean;
  /** Ends the wait when aborted. */
  signal?: AbortSignal | undefined;
}

/** Wakes a waiter, with the ended run if it is known. */
type Resume = (run: RunDetail | null) => void;

/** Notifies the waiters of this node about runs on all nodes. */
export function createRunSignals(db: Db) {
  const waiting = new Map<string, Set<Resume>>();
  let listening: Promise<unknown> | undefined;
  let ended = false;
  let offer: WorkerSignals["offer"] = () => null;

  const finished = (run_id: string, run: RunDetail | null) => {
    for (const key of [run_id, ANY_RUN]) for (const resume of waiting.get(key) ?? []) resume(run);
  };
  const register = (key: string, resume: Resume) => {
    const set = waiting.get(key) ?? new Set();
    waiting.set(key, set.add(resume));
    return () => {
      set.delete(resume);
      if (set.size === 0) waiting.delete(key);
    };
  };

  return {
    /** Wakes the waiters of this node, with the run if it is known. The database notifies waiters on other nodes. */
    finished: (run_id: string, run: RunDetail | null = null) => finished(run_id, run),
    /** Whether a caller waits on this node for the end of this run. */
    isAwaited: (run_id: string) => waiting.has(run_id),
    /** The offer of this node's worker. */
    offer: () => offer(),
    /**
     * Calls `done` at first, whenever the run finishes and once a second, until it returns true. Resolves to false if
     * the wait ends before that.
     */
    async until(done: (run: RunDetail | null) => Promise<boolean>, wait: Wait): Promise<boolean> {
      const { run_id, timeout_ms, signal } = wait;
      const deadline_ms = monotonicMs() + timeout_ms;
      let is_open = wait.is_open === true && listening !== undefined;
      listening ??= db.listen("run_finished", (finished_id) => finished(finished_id, null));
      await listening;
      let changed = Promise.withResolvers<RunDetail | null>();
      let ended_run: RunDetail | null = null;
      const resume: Resume = (run) => changed.resolve(run);
      const look = () => resume(null);
      const unregister = register(run_id ?? ANY_RUN, resume);
      signal?.addEventListener("abort", look);
      try {
        for (;;) {
          changed = Promise.withResolvers();
          if (!is_open && (await done(ended_run))) return true;
          is_open = false;
          const left_ms = deadline_ms - monotonicMs();
          if (left_ms <= 0 || ended || signal?.aborted) return false;
          const timer = setTimeout(look, Math.min(POLL_MS, left_ms));
          ended_run = await changed.promise;
          clearTimeout(timer);
        }
      } finally {
        unregister();
        signal?.removeEventListener("abort", look);
      }
    },
    /** Ends all present and future waits. */
    end(): void {
      ended = true;
      for (const resumes of waiting.values()) for (const resume of resumes) resume(null);
    },
    /**
     * Resolves to the function that stops the watch. After a lost connection it calls `queued`, because a signal may be
     * lost.
     */
    async watch(signals: WorkerSignals): Promise<() => Promise<void>> {
      const { queued, freed, cancelling } = signals;
      offer = signals.offer;
      const stops = [
        await db.listen("run_queued", queued, queued),
        await db.listen("run_finished", freed),
        await db.listen("run_cancelling", cancelling),
      ];
      const lookForThemselves = async () => {
        for (const run_id of await selectCancelling(db)) cancelling(run_id);
      };
      let looking = Promise.resolve();
      const timer = setInterval(() => {
        looking = lookForThemselves().catch(() => {}); // the next turn tries again
      }, POLL_MS);
      return async () => {
        offer = () => null;
        clearInterval(timer);
        await looking;
        for (const stop of stops) await stop();
      };
    },
  };
}

export type RunSignals = ReturnType<typeof createRunSignals>;
