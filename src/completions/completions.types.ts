import type { Caller } from "../contract/caller.ts";
import type { ChatRequest, ChatResponse, Routing, Usage } from "../contract/completions.ts";
import type { AgentBudget, Rider, RiderAnswer } from "../ledger/ledger.types.ts";

/** One call of a model, made by a person, by a key or by an agent's run. */
export interface CompletionCall {
  request: ChatRequest;
  caller: Pick<Caller, "user_id" | "api_key_id" | "key_budget_tokens">;
  agent_id: string | null;
  run_id: string | null;
  /** Names the charge for ever, so that it is made once: new for each call, or a run step's recorded id. */
  hold_id: string;
  /** The HTTP request's id, as a label to find the charge by. */
  request_id: string;
  /** Aborted when the caller has left. The output until then is charged and, once the request was sent, the input. */
  signal: AbortSignal;
  /** Asked when `signal` is aborted before any output: true when the service itself will make this call again. */
  isHandedBack?: () => boolean;
  /** What runs in the hold's transaction. The call throws the ledger's HoldSupersededError where it does not agree. */
  intent?: { rider: Rider; onWritten(): void };
  /** Makes what runs in the settle's transaction, once it is known what is settled. */
  rider?: (answer: CompletionAnswer) => Rider;
  /** The most that the call may cost, whatever the balance; null or absent: no such limit. */
  max_cost_tokens?: number | null;
  /** The most that all calls of `agent_id` may cost since a day; null or absent: no such limit. */
  agent_budget?: AgentBudget | null;
  /** For `auto`: the model of this thread's or run's earlier turns. */
  sticky_model_id?: string | null;
}

/** An answer that is about to be charged. */
export interface CompletionAnswer {
  model_id: string;
  usage: Usage;
  /** False for a stream that ended early: its provider broke off, or nobody waited any more. */
  complete: boolean;
  /** Set when the model was chosen by `auto`. */
  routing?: Routing;
  /** Null for a stream, whose events have told it. */
  response: ChatResponse | null;
}

/** What a finished call came to. */
export interface CompletionOutcome extends Omit<CompletionAnswer, "response"> {
  /** `superseded`: the rider refused, nothing was charged and the answer must not be used. */
  settlement: "settled" | "superseded";
  /** What the rider answered. */
  rider?: RiderAnswer;
}

export interface CompletionResult extends CompletionOutcome {
  response: ChatResponse;
}

/**
 * Server-sent events to write out as they are, the last with usage and `[DONE]`. Settled before the last one, and also
 * when left early: by `return()` or by the call's signal.
 */
export interface CompletionStream extends AsyncIterableIterator<string> {
  next(): Promise<IteratorResult<string, undefined>>;
  return(): Promise<IteratorResult<string, undefined>>;
  /** Null until settled, and when nothing was charged. */
  outcome(): CompletionOutcome | null;
}

export interface Completions {
  /** Answers in one piece. Throws PurserErrors; nothing is charged then. Aborted after it was sent: its input is. */
  complete(call: CompletionCall): Promise<CompletionResult>;
  /**
   * Resolves with the first event; what fails before is thrown, what fails later becomes an error event. Aborted after it
   * was sent and before any event: resolves to a stream without events, whose outcome is the charge for the input.
   */
  stream(call: CompletionCall): Promise<CompletionStream>;
  /** The process stops: resolves once no charge is under way. Those of callers that hung up outlive their requests. */
  idle(): Promise<void>;
}

/** Whoever answers for `model: "agent/{id}"`; null when there is no such agent of this caller. */
export type ResolveAgent = (
  agent_id: string,
  caller: CompletionCall["caller"],
) => Promise<Pick<Completions, "complete" | "stream"> | null>;
