import type { Outcome } from "../../api/contract/run-actions.ts";
import { conflict, failure } from "../../kernel/purser-error.ts";

/** Errors of runs. */
export const runErrors = {
  runAlreadyFinished: () =>
    conflict("run_already_finished", "This run has already finished; its result does not change."),
  actionDecided: (outcome: Outcome) =>
    conflict("action_already_decided", `This action is ${outcome} already; its decision does not change.`),
  argumentsChanged: () =>
    conflict(
      "arguments_changed",
      "The call has other arguments than the ones you approve. Read the run again, and decide on what it shows.",
      "arguments",
    ),
  runDoesNotWait: () => conflict("run_not_waiting", "This run does not wait for a decision any more."),
  /** A chat's run that ended without an answer: `error` is the run's own. */
  runFailed: (error: { code: string; message: string }) =>
    failure({ status: 409, type: "conflict_error", code: error.code, message: error.message }),
};
