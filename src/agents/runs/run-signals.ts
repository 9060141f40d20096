import type { RunDetail } from "../../api/contract/runs.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db } from "../../platform/db/db.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import * as history from "./history.store.ts";
import { selectCancelling } from "./history.store.ts";
import { BATCH_LIMIT, type ClaimedRun, type ClaimLimits, type RunKey } from "./runs.types.ts";

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

  const left = (run_id: string, run: RunDetail | null) => {
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
    /** Wakes the waiters of this node for a run that has ended or waits, with the ended run if it is known. The database notifies the waiters of other nodes. */
    left: (run_id: string, run: RunDetail | null = null) => left(run_id, run),
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
      listening ??= db.listen("run_left", (left_id) => left(left_id, null));
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
        await db.listen("run_left", freed),
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

/** Waits for runs: for the end of one, or for the end of all. */
export function createRunWaits({ db, signals }: { db: Db; signals: RunSignals }) {
  const isFinished = createBatches(BATCH_LIMIT, (keys: RunKey[]) => history.selectFinished(db, keys));
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
