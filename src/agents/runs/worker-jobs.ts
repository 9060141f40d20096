import type { StopReason } from "./run-work.ts";
import type { ClaimedRun } from "./runs.types.ts";

/** A run that this worker executes. */
export interface Job {
  run: ClaimedRun;
  abort: AbortController;
  /** Resolves when the worker has left the run. */
  done: Promise<void>;
}

/** The runs that one worker executes, through `carryOut`, which must not throw. */
export function createWorkerJobs(deps: {
  carryOut(run: ClaimedRun, signal: AbortSignal): Promise<void>;
  /** Called with the number of runs whenever it changes. */
  inProgress(count: number): void;
  /** Called when the worker has left a run, so that its place is free. */
  onLeft(): void;
}) {
  const jobs = new Map<string, Job>();

  function begin(run: ClaimedRun): void {
    const { run_id, epoch } = run.lease;
    // A late answer to a claim: the run has been claimed again since.
    if ((jobs.get(run_id)?.run.lease.epoch ?? 0) >= epoch) return;
    // A stalled worker may claim a run that it is still executing under a lost lease.
    abort(run_id, "lost");
    const controller = new AbortController();
    const done = deps.carryOut(run, controller.signal).finally(() => {
      if (jobs.get(run_id)?.abort === controller) jobs.delete(run_id);
      deps.inProgress(jobs.size);
      deps.onLeft();
    });
    jobs.set(run_id, { run, abort: controller, done });
    deps.inProgress(jobs.size);
  }

  /** Tells a run to end early. */
  function abort(run_id: string, reason: StopReason): void {
    jobs.get(run_id)?.abort.abort(reason);
  }

  return {
    begin,
    abort,
    count: () => jobs.size,
    ids: () => [...jobs.keys()],
    all: () => [...jobs.values()],
  };
}

export type WorkerJobs = ReturnType<typeof createWorkerJobs>;
