import type { OutsideWords, RunError } from "../../api/contract/runs.ts";
import { isProviderFailure, type ProviderError } from "../../gateway/models/provider-errors.ts";
import { errors, PurserError } from "../../kernel/errors.ts";

/** The error of a completion mentions max_tokens, which an agent's owner cannot set. */
const NOT_COVERED =
  "The balance does not cover the next model call. Top up, subscribe, or give the agent a cheaper model or a shorter prompt.";
/** The `param` of a call that the budget of its API key does not cover. */
export const KEY_BUDGET = "budget_tokens";
/** The longest Retry-After that a run waits for. */
const MAX_RETRY_MS = 60_000;

/**
 * contract 6: the error of a run whose model call threw. The message comes from the catalogue, so users may read it. It
 * adds detail that `model_unavailable` lacks, such as a prompt that is too long.
 */
export function modelCallError(thrown: unknown): RunError {
  const outside = providersWords(thrown);
  return { ...inOurWords(thrown), ...(outside === null ? {} : { outside }) };
}

/** What the model's provider said of its failure, without keys; null if it said nothing. */
export function providersWords(thrown: unknown): OutsideWords | null {
  const provider =
    thrown instanceof PurserError ? (thrown.shape.metadata?.provider as ProviderError | undefined) : undefined;
  return provider === undefined ? null : { status: provider.status, text: provider.message ?? provider.code };
}

function inOurWords(thrown: unknown): RunError {
  if (!(thrown instanceof PurserError)) return internalError();
  const { status, code, message, param = null } = thrown.shape;
  if (code === "secret_reflected") return { code, message };
  if (code === "key_budget_exceeded") return { code: "budget_exceeded", message, param: KEY_BUDGET };
  if (code === "end_user_budget_exceeded") return { code: "budget_exceeded", message, param: "user" };
  if (code === "budget_exceeded") return { code, message, ...(param === null ? {} : { param }) };
  if (code === "insufficient_balance") return { code: "insufficient_tokens", message: NOT_COVERED };
  if (status === 402) return { code: "insufficient_tokens", message };
  return { code: "model_unavailable", message };
}

/** The configuration no longer has the agent's model. The caller of a chat has not named it, so it is the run's error. */
export function modelGone(model: string): PurserError {
  const message = `The agent's model ${JSON.stringify(model)} is not offered any more. Set another model_id with PUT /api/v1/agents/{id}; GET /api/v1/models lists them.`;
  return errors.runFailed({ code: "model_unavailable", message }).with({ param: "model_id" });
}

/** The error of a model call as the caller of a run reads it: the agent named the model, not the caller. */
export function agentModelError(thrown: unknown, { auto_route }: { auto_route: boolean }): unknown {
  if (!(thrown instanceof PurserError) || thrown.shape.param !== "model") return thrown;
  const { message } = thrown.shape;
  return thrown.with({ param: "model_id", message: auto_route ? message : `The agent's model ${message}` });
}

/** The Retry-After of a failed provider; null: the call is not retried. */
export function retryDelay(thrown: unknown): number | null {
  if (!isProviderFailure(thrown)) return null;
  const wanted_ms = (thrown.shape.retry_after_s ?? 0) * 1_000;
  return wanted_ms > MAX_RETRY_MS ? null : wanted_ms;
}

/** The error of a step whose answer the provider broke off. The partial answer has been charged and stays on record. */
export function brokenAnswer(
  thrown: unknown,
  { was_heard }: { was_heard: boolean },
): { error: RunError; internal: { retry_in_ms: number | null } } {
  const outside = providersWords(thrown);
  const error = {
    code: "model_unavailable",
    message:
      "The model's provider broke off its answer. What it had generated is charged. Run the agent again, or use another model.",
    ...(outside === null ? {} : { outside }),
  };
  return { error, internal: { retry_in_ms: was_heard ? null : 0 } };
}

/** An unexpected failure. Its detail is in the log. */
export function internalError(): RunError {
  return {
    code: "internal",
    message: "Something went wrong here. Run the agent again; if it stays, report the run's id.",
  };
}
