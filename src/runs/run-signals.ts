import type { RunDetail } from "../contract/runs.ts";
import { monotonicMs } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import { selectCancelling } from "./run-history.store.ts";
import type { ClaimedRun, ClaimLimits } from "./runs.types.ts";

/** Places of a worker for runs that are being queued on its node: those need not wait to be claimed. */
export interface Offer {
  worker_id: string;
  most: number;
  limits: ClaimLimits;
  /** To be called once, with what was claimed; null: that failed, or its answer was lost. */
  begin(runs: readonly ClaimedRun[] | null): void;
}

/** The signals that a worker receives. */
export interface WorkerSignals {
  /** Asked when runs are queued on this node. Null: it has no place. */
  offer(): Offer | null;
  /** There may be runs to claim. */
  queued(): void;
  /** A run has finished, here or elsewhere, and so a place has become free. */
  freed(): void;
  /** The end of this run was asked for. */
  cancelling(run_id: string): void;
}

/** Notifications may get lost with a connection: waiters, and runs to be stopped, are looked after this often as well. */
const POLL_MS = 1_000;
const ANY_RUN = "";

/** The run to wait for, and how long. */
export interface Wait {
  /** null: any run. */
  run_id: string | null;
  timeout_ms: number;
  /** What is waited for cannot have happened yet, and will be told of here: it is not asked for at first. */
  is_open?: boolean;
  /** Ends the wait when aborted. */
  signal?: AbortSignal | undefined;
}

/** Wakes a waiter; with the run that has ended, where that is known. */
type Resume = (run: RunDetail | null) => void;

/** Tells who waits on this node what happens to runs on any node. */
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
    /** Wakes who waits on this node, with the run where it is known; those on others hear of it from the database. */
    finished: (run_id: string, run: RunDetail | null = null) => finished(run_id, run),
    /** Whether anybody waits here for the end of this very run. */
    isAwaited: (run_id: string) => waiting.has(run_id),
    /** What this node's worker offers. */
    offer: () => offer(),
    /** Asks `done` at first, whenever the run finishes and now and then, until it says so; false when the wait is over before. */
    async until(done: (run: RunDetail | null) => Promise<boolean>, wait: Wait): Promise<boolean> {
      const { run_id, timeout_ms, signal } = wait;
      const deadline_ms = monotonicMs() + timeout_ms;
      let is_open = wait.is_open === true && listening !== undefined;
      listening ??= db.listen("run_finished", (finished_id) => finished(finished_id, null));
      await listening;
      let news = Promise.withResolvers<RunDetail | null>();
      let told: RunDetail | null = null;
      const resume: Resume = (run) => news.resolve(run);
      const look = () => resume(null);
      const unregister = register(run_id ?? ANY_RUN, resume);
      signal?.addEventListener("abort", look);
      try {
        for (;;) {
          news = Promise.withResolvers();
          if (!is_open && (await done(told))) return true;
          is_open = false;
          const left_ms = deadline_ms - monotonicMs();
          if (left_ms <= 0 || ended || signal?.aborted) return false;
          const timer = setTimeout(look, Math.min(POLL_MS, left_ms));
          told = await news.promise;
          clearTimeout(timer);
        }
      } finally {
        unregister();
        signal?.removeEventListener("abort", look);
      }
    },
    /** Ends every wait, those to come as well. */
    end(): void {
      ended = true;
      for (const resumes of waiting.values()) for (const resume of resumes) resume(null);
    },
    /** Resolves to the function that stops. After a lost connection `queued` is called, since something may have been missed. */
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
