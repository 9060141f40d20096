import type { AgentBudget, TransactionHook, TransactionHookAnswer } from "../../account/ledger/ledger.types.ts";
import type { ChatRequest, ChatResponse, Routing, Usage } from "../../api/contract/completions.ts";
import type { EmbeddingRequest, EmbeddingUsage } from "../../api/contract/embeddings.ts";
import type { Payer } from "../../api/contract/key-terms.ts";
import type { ModelApi } from "../../api/contract/model-apis.ts";
import type { PurserError } from "../../kernel/errors.ts";
import type { AnswerPart } from "../models/answer-events.ts";
import type { Model, NativeRequest, NativeTarget, ProviderRequest } from "../models/models.types.ts";

export type { NativeRequest, NativeTarget };

/** One model call by a person, an API key or an agent's run. */
export interface CompletionCall {
  request: ChatRequest;
  caller: Payer;
  /** Headers of the caller that a provider with Anthropic's API gets: `anthropic-version` and `anthropic-beta`. */
  provider_headers?: Readonly<Record<string, string>>;
  /** The caller's own request, for a provider with the same API as the caller's endpoint. */
  native?: NativeRequest;
  /**
   * The fault of an answer in JSON; null: it conforms. The caller's own check, stricter than that of `response_format`: an answer
   * that no strict mode ensures is checked with it, and repaired once.
   */
  findJsonFault?: (value: unknown) => string | null;
  /** The model must accept pictures, because results of the caller's tools are pictures. */
  needs_vision?: boolean;
  agent_id: string | null;
  run_id: string | null;
  /** Permanent id of the charge, so that it is made once: new for each call, or a run step's recorded id. */
  hold_id: string;
  /** The HTTP request's id, a label to find the charge. */
  request_id: string;
  /** For the request log: how it was called, and when by `monotonicMs`. Absent: by a run, whose steps have their times. */
  timing?: { api: ModelApi | null; began_ms: number };
  /**
   * Aborted when the caller leaves. The provider is read on for its usage for a bounded time. Then the output until then
   * is charged, and also the input if the request was sent.
   */
  signal: AbortSignal;
  /** Called if `signal` is aborted before any output: true if the service itself will repeat this call. */
  isHandedBack?: () => boolean;
  /**
   * Makes the statement in the hold's transaction, for the model that is called. If it does not agree, the call throws
   * the ledger's HoldSupersededError.
   */
  intent?: { hookOf(model_id: string): TransactionHook; onWritten(): void };
  /** Creates the statement that runs in the settle's transaction, from the answer that is settled. */
  hook?: (answer: CompletionAnswer) => TransactionHook;
  /** The most that the call may cost, independent of the balance; null or absent: no such limit. */
  max_cost_tokens?: number | null;
  /** The most that all calls of `agent_id` may cost from a given day on; null or absent: no such limit. */
  agent_budget?: AgentBudget | null;
  /** For `auto`: the model that answered the earlier turns of this thread or run. */
  sticky_model_id?: string | null;
}

/** A call with a hold, ready to send. */
export interface Reservation {
  model: Model;
  request: ProviderRequest;
  /** The request had reasoning of another model, which is not sent. */
  drops_reasoning: boolean;
}

/** An answer that is about to be charged. */
export interface CompletionAnswer {
  model_id: string;
  /** The route that the model was called by, if it has several. */
  route?: string;
  /** The model's provider. */
  provider?: string;
  usage: Usage;
  /** False for a stream that ended early: its provider broke off, or its caller left. */
  complete: boolean;
  /** The error that ended an incomplete answer, if it was one of the provider. */
  thrown?: unknown;
  /** Set if `auto` chose the model. */
  routing?: Routing;
  /** The model was not sent reasoning of another model that was in the request. */
  reasoning_dropped?: true;
  /** Null for a stream, whose events contain the answer. */
  response: ChatResponse | null;
}

/** The result of a finished call. */
export interface CompletionOutcome extends Omit<CompletionAnswer, "response" | "thrown"> {
  /** `superseded`: the hook refused, no charge was made and the answer must not be used. */
  settlement: "settled" | "superseded";
  /** The hook's answer. */
  hook?: TransactionHookAnswer;
}

export interface CompletionResult extends CompletionOutcome {
  response: ChatResponse;
}

/**
 * An answer in parts, from its start to its `end` or an `error`. The call is settled before its end, and also when the
 * reader leaves early, by `return()` or by the call's signal.
 */
export interface CompletionStream extends AsyncIterableIterator<AnswerPart> {
  next(): Promise<IteratorResult<AnswerPart, undefined>>;
  return(): Promise<IteratorResult<AnswerPart, undefined>>;
  /** Null until settled, and if no charge was made. */
  outcome(): CompletionOutcome | null;
}

/** Writes an answer in the shape of the caller's API. One per request. */
export interface AnswerWriter {
  /** The caller's events for a part of a stream, "" if it adds none. */
  write(part: AnswerPart): string | Promise<string>;
  whole(response: ChatResponse): object | Promise<object>;
  /** The event that ends the stream of a caller that loses access. */
  failed(error: PurserError): string;
  /** The caller's name for a field of the chat completion. */
  paramOf(param: string): string;
}

/** A call for vectors by a person or an API key. */
export type EmbeddingsCall = Pick<CompletionCall, "caller" | "hold_id" | "request_id" | "timing" | "signal"> & {
  request: EmbeddingRequest;
};

export interface EmbeddingsAnswer {
  model_id: string;
  /** The JSON text of each input's vector. */
  vectors: readonly string[];
  usage: EmbeddingUsage;
}

export interface Completions {
  /**
   * Answers in one piece. A PurserError means that no charge was made, but an abort after sending charges the input.
   */
  complete(call: CompletionCall): Promise<CompletionResult>;
  /**
   * Resolves with the first event. Earlier failures are thrown, later ones become an error event. After an abort
   * between sending and the first event, the stream has no events, and its outcome is the charge for the input.
   */
  stream(call: CompletionCall): Promise<CompletionStream>;
  /** Creates vectors. A PurserError means that no charge was made. */
  embed(call: EmbeddingsCall): Promise<EmbeddingsAnswer>;
  /** Estimates the input tokens of a request. Throws 404 for an unknown model, and 403 for one that is not allowed. */
  estimate(request: ChatRequest, caller: Pick<CompletionCall["caller"], "allowed_models">): Promise<number>;
  /** Called when the process begins to stop. Calls whose caller has hung up are no longer read for their usage. */
  beginStop(): void;
  /**
   * Called when the process stops; resolves once no charge is pending. A charge outlives the request of a caller that
   * left.
   */
  idle(): Promise<void>;
}

/** Returns the agent that answers `model: "agent/{id}"`; null if this caller has no such agent. */
export type ResolveAgent = (
  agent_id: string,
  caller: CompletionCall["caller"],
) => Promise<Pick<Completions, "complete" | "stream"> | null>;

const PREFIX = "agent/";

/** The id in `model: "agent/{id}"`; null for any other model. */
export function agentIdOf(model: string): string | null {
  return model.startsWith(PREFIX) ? model.slice(PREFIX.length) : null;
}
