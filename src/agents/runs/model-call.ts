import type { TransactionHook } from "../../account/ledger/ledger.types.ts";
import type { FinishReason } from "../../api/contract/completions.ts";
import type { OutsideWords, RunError } from "../../api/contract/runs.ts";
import type {
  CompletionAnswer,
  CompletionCall,
  CompletionOutcome,
  Completions,
} from "../../gateway/completions/completions.types.ts";
import { createMessageBuilder } from "../../gateway/models/answer-message.ts";
import { toFinishReason } from "../../gateway/models/dialects.ts";
import { isProviderFailure, type ProviderError } from "../../gateway/models/provider-errors.ts";
import { PurserError } from "../../kernel/errors.ts";
import { runErrors } from "./errors.ts";
import type { AssistantMessage } from "./transcript.ts";

/** A model's answer, complete or partial, with its cost. */
export interface ModelAnswer extends CompletionAnswer {
  message: AssistantMessage;
  finish_reason: FinishReason;
}

/** One model call of a run. `record` makes the hook that records the answer in the transaction of its charge. */
export interface ModelCall extends Omit<CompletionCall, "hook"> {
  record(answer: ModelAnswer): TransactionHook;
}

/** `thrown` is the error that ended an incomplete answer. */
export type ModelOutcome = Pick<ModelAnswer, "message" | "finish_reason"> & CompletionOutcome & { thrown: unknown };

/**
 * Makes the call. An interrupted answer is also an outcome once it is charged, whichever side stopped it. Null when the
 * call was aborted before it was sent, or handed back before the model generated anything. Throws the PurserError of a
 * call without an outcome.
 */
export async function callModel(
  completions: Completions,
  call: ModelCall,
  { in_one_piece, onText }: { in_one_piece: boolean; onText: ((text: string) => void) | null },
): Promise<ModelOutcome | null> {
  if (!in_one_piece) return callStreamed(completions, call, onText);
  const outcome = await callWhole(completions, call);
  if (typeof outcome.message.content === "string") onText?.(outcome.message.content);
  return outcome;
}

async function callWhole(completions: Completions, { record, ...call }: ModelCall): Promise<ModelOutcome> {
  let said: Pick<ModelAnswer, "message" | "finish_reason"> | undefined;
  const outcome = await completions.complete({
    ...call,
    hook: (answer) => {
      const choice = answer.response?.choices[0];
      said = {
        message: choice?.message ?? { role: "assistant", content: null },
        finish_reason: toFinishReason(choice?.finish_reason),
      };
      return record({ ...answer, ...said });
    },
  });
  if (said === undefined) throw new Error("a model call was settled without its hook");
  return { ...outcome, ...said, thrown: null };
}

async function callStreamed(
  completions: Completions,
  { record, ...call }: ModelCall,
  onText: ((text: string) => void) | null,
): Promise<ModelOutcome | null> {
  const answer = createMessageBuilder();
  const said = () => ({ message: answer.message() as AssistantMessage, finish_reason: answer.finishReason() });
  const stream = await completions.stream({ ...call, hook: (charged) => record({ ...charged, ...said() }) });
  let thrown: unknown = null;
  try {
    for await (const { events } of stream) {
      for (const event of events) {
        if (event.type === "error") throw providerFailure(event.error);
        answer.add(event);
        if (event.type === "text" && event.choice === 0) onText?.(event.text);
      }
    }
  } catch (failure) {
    thrown = failure;
  }
  // An aborted stream may still be charging.
  await stream.return();
  const outcome = stream.outcome();
  if (outcome === null && thrown !== null) throw thrown;
  return outcome === null ? null : { ...outcome, ...said(), thrown };
}

/** A failure of the provider within a stream is one of its own, whatever status a caller of completions gets for it. */
function providerFailure({ shape: { type, code, message } }: PurserError): PurserError {
  return new PurserError({ status: 502, type, code, message });
}

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
  const outside = readProviderWords(thrown);
  return { ...describeFailure(thrown), ...(outside === null ? {} : { outside }) };
}

/** What the model's provider said of its failure, without keys; null if it said nothing. */
export function readProviderWords(thrown: unknown): OutsideWords | null {
  const provider =
    thrown instanceof PurserError ? (thrown.shape.metadata?.provider as ProviderError | undefined) : undefined;
  return provider === undefined ? null : { status: provider.status, text: provider.message ?? provider.code };
}

function describeFailure(thrown: unknown): RunError {
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
export function modelGoneError(model: string): PurserError {
  const message = `The agent's model ${JSON.stringify(model)} is not offered any more. Set another model_id with PUT /api/v1/agents/{id}; GET /api/v1/models lists them.`;
  return runErrors.runFailed({ code: "model_unavailable", message }).with({ param: "model_id" });
}

/** The error of a model call as the caller of a run reads it: the agent named the model, not the caller. */
export function agentModelError(thrown: unknown, { auto_route }: { auto_route: boolean }): unknown {
  if (!(thrown instanceof PurserError) || thrown.shape.param !== "model") return thrown;
  const { message } = thrown.shape;
  return thrown.with({ param: "model_id", message: auto_route ? message : `The agent's model ${message}` });
}

/** The Retry-After of a failed provider; null: the call is not retried. */
export function readRetryDelay(thrown: unknown): number | null {
  if (!isProviderFailure(thrown)) return null;
  const wanted_ms = (thrown.shape.retry_after_s ?? 0) * 1_000;
  return wanted_ms > MAX_RETRY_MS ? null : wanted_ms;
}

/** The error of a step whose answer the provider broke off. The partial answer has been charged and stays on record. */
export function describeBrokenAnswer(
  thrown: unknown,
  { was_heard }: { was_heard: boolean },
): { error: RunError; internal: { retry_in_ms: number | null } } {
  const outside = readProviderWords(thrown);
  const error = {
    code: "model_unavailable",
    message:
      "The model's provider broke off its answer. What it had generated is charged. Run the agent again, or use another model.",
    ...(outside === null ? {} : { outside }),
  };
  return { error, internal: { retry_in_ms: was_heard ? null : 0 } };
}

/** Why a complete answer without calls is not what was asked for; null: it is. */
export function describeIncompleteAnswer(
  { content, tool_calls }: AssistantMessage,
  finish_reason: FinishReason,
): RunError | null {
  if ((tool_calls ?? []).length > 0) return null;
  if (finish_reason === "content_filter") {
    return {
      code: "answer_filtered",
      message: "The model's provider withheld the answer or a part of it. Change the task, or use another model.",
    };
  }
  if (finish_reason === "length") {
    return {
      code: "answer_cut_off",
      message:
        "The answer was cut off at the most tokens that it may have. Raise model_settings.max_output_tokens, or ask for less.",
    };
  }
  if (typeof content === "string" && content.trim() !== "") return null;
  return { code: "answer_empty", message: "The model answered without text. Change the task, or use another model." };
}

/** An unexpected failure. Its detail is in the log. */
export function internalError(): RunError {
  return {
    code: "internal",
    message: "Something went wrong here. Run the agent again; if it stays, report the run's id.",
  };
}
