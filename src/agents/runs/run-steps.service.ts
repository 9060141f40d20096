import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import * as runStore from "./run.store.ts";
import * as history from "./run-history.store.ts";
import { detailOf } from "./run-record.ts";
import type { RunSignals } from "./run-signals.ts";
import { BATCH_LIMIT, type LeaseState, type RunLease, type StepFinish, type StepStart } from "./runs.types.ts";

/** The writes of a run's steps, alone or with the ledger's hold and settle. */
export function createRunSteps(deps: { db: Db; clock: Clock; signals: RunSignals; ends_with_step: boolean }) {
  const { db, clock, signals, ends_with_step } = deps;
  const start = createBatches(BATCH_LIMIT, (starts: runStore.StartedStep[]) => runStore.startSteps(db, starts));
  return {
    /**
     * Writes a step's intent before its call; make the call only if the answer is `running`. The intent of a tool call
     * is then on the disk. The intent of a model call need not be, like its hold: it has no meaning without its answer.
     */
    startStep(lease: RunLease, step: StepStart): Promise<LeaseState> {
      return start({ lease, step, now: clock.now() });
    },
    /** Records the outcome of a call that costs nothing. False: the lease is lost, and nothing was written. */
    finishStep(lease: RunLease, step: StepFinish): Promise<boolean> {
      return runStore.finishStep(db, runStore.finishStepArgument(lease, step, clock.now()));
    },
    /** `startStep` of a model call as a hook of the ledger's hold: its answer is `{done, state}`. */
    startStepHook(lease: RunLease, step: StepStart): { kind: "start_step"; argument: unknown } {
      return { kind: "start_step", argument: runStore.startStepArgument({ lease, step, now: clock.now() }) };
    },
    /**
     * `finishStep` as a hook of the ledger's settle: the step and its charge commit together. With `output`, it is the
     * run's last step and its success ends the run in the same transaction, if that changes nothing outside the run.
     *
     * Pass its answer, `{done, ended}`, to `noteEnd`.
     */
    finishStepHook(
      lease: RunLease,
      step: StepFinish & { output?: string | null },
    ): { kind: "finish_step"; argument: unknown } {
      const { output = null, ...finish } = step;
      const ending = !ends_with_step ? finish : { ...finish, output, told: signals.isAwaited(lease.run_id) };
      return {
        kind: "finish_step",
        argument: runStore.finishStepArgument(lease, ending, clock.now()),
      };
    },
    /** Notifies waiters on this node that a settle's hook has ended a run. Takes the hook's answer. */
    noteEnd({ run_id }: RunLease, { run }: Readonly<Record<string, unknown>>): void {
      signals.finished(run_id, run === undefined ? null : detailOf(history.detailsOf(run as history.DetailJson)));
    },
  };
}
