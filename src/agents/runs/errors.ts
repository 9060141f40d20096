import { conflict, failure } from "../../kernel/purser-error.ts";

/** Errors of runs. */
export const runErrors = {
  runAlreadyFinished: () =>
    conflict("run_already_finished", "This run has already finished; its result does not change."),
  /** A chat's run that ended without an answer: `error` is the run's own. */
  runFailed: (error: { code: string; message: string }) =>
    failure({ status: 409, type: "conflict_error", code: error.code, message: error.message }),
};
