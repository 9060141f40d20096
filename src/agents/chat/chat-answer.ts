import type { FinishReason, ReasoningDetail, Routing, ToolCall, Usage } from "../../api/contract/completions.ts";
import type { RunDetail } from "../../api/contract/runs.ts";
import type { AnswerEvent, AnswerPart } from "../../gateway/models/answer-events.ts";
import { callEvent } from "../../gateway/models/answer-message.ts";
import { describeWaiting, type Waiting } from "../runs/waiting-words.ts";

/** The answers of a finished chat turn, whole and as events. Pure. */

/** The finish reason of a turn that waits for a decision. */
const WAITS = "requires_action";

/** The sum of the usages of a run's model calls. */
export function totalUsage(usages: readonly Usage[]): Usage {
  const sum = (pick: (usage: Usage) => number) => usages.reduce((total, usage) => total + pick(usage), 0);
  const input_tokens = sum((usage) => usage.input_tokens);
  const output_tokens = sum((usage) => usage.output_tokens);
  const cache_write_1h_tokens = sum((usage) => usage.prompt_tokens_details.cache_write_1h_tokens ?? 0);
  return {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
    cost_tokens: sum((usage) => usage.cost_tokens),
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    prompt_tokens_details: {
      cached_tokens: sum((usage) => usage.prompt_tokens_details.cached_tokens),
      cache_write_tokens: sum((usage) => usage.prompt_tokens_details.cache_write_tokens),
      ...(cache_write_1h_tokens === 0 ? {} : { cache_write_1h_tokens }),
    },
    completion_tokens_details: { reasoning_tokens: sum((usage) => usage.completion_tokens_details.reasoning_tokens) },
    ...(usages.some((usage) => usage.estimated) ? { estimated: true as const } : {}),
  };
}

/** A turn that has succeeded, or that waits for a decision. */
export interface FinishedTurn {
  run: RunDetail;
  /** null: the turn does not belong to a thread. */
  thread_id: string | null;
  usage: Usage;
  finish_reason: FinishReason;
  /** Calls to the caller's tools, with the reasoning that their model needs back; null: the answer is whole. */
  asked: { tool_calls: ToolCall[]; reasoning_content?: string; reasoning_details?: ReasoningDetail[] } | null;
  /** null: the turn has its answer. */
  waiting: Waiting | null;
}

/** The fields of a turn that its chunks contain. */
type Named = Pick<FinishedTurn, "thread_id"> & { run: Pick<RunDetail, "id" | "queued_at" | "model_id"> };

/** The whole answer: a chat.completion with `run_id`. */
export function chatAnswer(turn: FinishedTurn) {
  const { run, usage, asked } = turn;
  const content = run.output ?? "";
  const message = {
    role: "assistant" as const,
    content: content === "" && asked !== null ? null : content,
    ...asked,
  };
  return {
    ...identity(turn),
    object: "chat.completion" as const,
    choices: [{ index: 0, message, finish_reason: explainReason(turn) }],
    usage,
    ...routingOf(run),
  };
}

/** The same of a chat with the agent: it may have no answer yet, and says what it waits for. */
export function agentAnswer(turn: FinishedTurn) {
  const { waiting } = turn;
  if (waiting === null) return chatAnswer(turn);
  const message = { role: "assistant" as const, content: null };
  return { ...chatAnswer(turn), choices: [{ index: 0, message, finish_reason: WAITS }], ...waiting };
}

/** The turn as an answer in words, for clients of a model: they know no turn that waits. `said`: it has generated text. */
export function inWords(turn: FinishedTurn, said = false): FinishedTurn {
  const { run, waiting } = turn;
  if (waiting === null) return turn;
  const text = describeWaiting(run.id, waiting);
  return { ...turn, waiting: null, run: { ...run, output: said ? `\n\n${text}` : text } };
}

/** The first event of a streamed answer. */
export function chatStart(turn: Named): AnswerEvent {
  const { id, created, model, ...fields } = identity(turn);
  return { type: "start", id, created, model, fields };
}

/** The last parts: calls to the caller's tools with the finish reason, and the usage of the whole run. */
export function chatEnd(turn: FinishedTurn): AnswerPart[] {
  const { run, usage, asked, waiting } = turn;
  const end: AnswerPart = { events: [{ type: "end", usage, routing: routingOf(run).routing ?? null }] };
  if (waiting !== null) return [toWaitingPart(turn, waiting), end];
  const { reasoning_content: thought, reasoning_details: details, tool_calls = [] } = asked ?? {};
  const reasoning: AnswerEvent[] = [
    ...(thought ? [{ type: "reasoning" as const, choice: 0, text: thought }] : []),
    ...(details === undefined ? [] : [{ type: "reasoning_details" as const, choice: 0, details }]),
  ];
  const model: AnswerEvent = { type: "model", model: identity(turn).model };
  const finish: AnswerEvent = { type: "finish", choice: 0, reason: explainReason(turn), stop_sequence: null };
  return [{ events: [model, ...reasoning, ...tool_calls.map(callEvent), finish] }, end];
}

/** The end of a turn that waits, as only a chat with the agent has it. */
function toWaitingPart(turn: FinishedTurn, waiting: Waiting): AnswerPart {
  const chunk = {
    ...identity(turn),
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta: {}, finish_reason: WAITS }],
    ...waiting,
  };
  return {
    events: [{ type: "finish", choice: 0, reason: "stop", stop_sequence: null }],
    chat_text: `data: ${JSON.stringify(chunk)}\n\n`,
  };
}

/** Some providers end an answer with calls as if it were whole. */
function explainReason({ finish_reason, asked }: FinishedTurn): FinishReason {
  return asked !== null && finish_reason === "stop" ? "tool_calls" : finish_reason;
}

function identity({ run, thread_id }: Named) {
  return {
    id: `chatcmpl-${run.id}`,
    created: Math.floor(Date.parse(run.queued_at) / 1000),
    // If routing chooses the model, it is unknown until the model has answered.
    model: run.model_id ?? "auto",
    run_id: run.id,
    ...(thread_id === null ? {} : { thread_id }),
  };
}

function routingOf({ routing }: RunDetail): { routing?: Routing } {
  return routing === null ? {} : { routing: routing as unknown as Routing };
}
