import { conflict, failure, forbidden, invalid } from "../../kernel/purser-error.ts";

/** Errors of calls of models. */
export const gatewayErrors = {
  /** `nearest`: names that may have been meant. */
  modelNotFound: (model: string, nearest: readonly string[] = [], param = "model") => {
    const meant = nearest.length === 0 ? "" : ` Did you mean ${nearest.join(" or ")}?`;
    const message = `The model ${JSON.stringify(model)} does not exist.${meant} GET /api/v1/models lists them.`;
    return failure({ status: 404, type: "not_found_error", code: "model_not_found", message, param });
  },
  modelNotAllowed: (model: string, param = "model") =>
    forbidden(
      "model_not_allowed",
      `${model} is not among the models that this API key or account may use. GET /api/v1/models lists those.`,
      param,
    ),
  modelNotTrialEligible: (model: string, param = "model") =>
    forbidden(
      "model_not_trial_eligible",
      `${model} is not part of the free trial. Subscribe or top up, or use a trial-eligible model.`,
      param,
    ),
  contextLengthExceeded: (limit: number, param = "messages") =>
    invalid(
      "context_length_exceeded",
      // Clients find these words, and then shorten the conversation by themselves.
      `The prompt is too long: this model's maximum context length is ${limit} tokens. Shorten it.`,
      param,
    ),
  /** `advice`: what else the caller can do. */
  unsupportedParameter: (param: string, advice?: string) =>
    invalid(
      "unsupported_parameter",
      `${param} is not sent to this model's provider. Remove it${advice === undefined ? "" : `; ${advice}`}.`,
      param,
    ),
  /** `type`: of the one that the provider defines. A model could not tell the two apart. */
  sameToolName: (name: string, type: string) =>
    invalid(
      "invalid_value",
      `Two tools are called ${name}, and one is of ${type}. Rename or leave out the other one.`,
      "tools",
    ),
  /** `details` of this error in Anthropic's shape: api/contract/messages-error.ts. */
  noMessageThreads: () =>
    invalid(
      "unsupported_parameter",
      'Threads of messages are not kept here. Send all messages in each request, without thread; Anthropic\'s SDK does so with unsupportedRequestBehavior: "continue_unthreaded".',
      "thread",
    ),
  previousResponseNotFound: (id: string) =>
    invalid(
      "previous_response_not_found",
      `The response ${JSON.stringify(id.slice(0, 80))} is not stored, or not any more. Send the whole conversation as input.`,
      "previous_response_id",
    ),
  runBudgetExceeded: () =>
    conflict("budget_exceeded", "The remaining max_cost_tokens_per_run does not cover the next model call. Raise it."),
  /** `param`: the field of the agent's monthly cap. */
  monthlyBudgetExceeded: (param: string) =>
    conflict(
      "budget_exceeded",
      "The remaining max_cost_tokens_per_month does not cover the next model call. Raise it, or wait for the next month.",
      param,
    ),
};
