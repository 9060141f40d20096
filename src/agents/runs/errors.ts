import type { Outcome, RequiredAction } from "../../api/contract/run-actions.ts";
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
  /** An approval of a run whose tokens are still missing. */
  tokensMissing: ({ limit, needed_tokens }: NonNullable<RequiredAction["budget"]>) =>
    conflict(
      "tokens_missing",
      limit === "month"
        ? `The agent's month does not cover the next model call, which needs ${needed_tokens} tokens. Raise limits.max_cost_tokens_per_month: then the run goes on by itself. Or reject the action.`
        : `The balance does not cover the next model call, which needs ${needed_tokens} tokens. Top up: then the run goes on by itself. Or reject the action.`,
    ),
  runDoesNotWait: () => conflict("run_not_waiting", "This run does not wait for a decision any more."),
  /** A chat's run that ended without an answer: `error` is the run's own. */
  runFailed: (error: { code: string; message: string }) =>
    failure({ status: 409, type: "conflict_error", code: error.code, message: error.message }),
};
