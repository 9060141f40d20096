import type { LiveCaller, RequestFacts } from "../../api/contract/caller.ts";
import type { ChatRequest, ChatResponse } from "../../api/contract/completions.ts";
import { type Answer, type JsonAnswer, json, type RequestTo } from "../../api/contract/endpoint.ts";
import { payerOf } from "../../api/contract/key-terms.ts";
import { labelsOf } from "../../api/contract/labels.ts";
import { modelApiOf } from "../../api/contract/model-apis.ts";
import { asPurserError, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import type {
  AnswerWriter,
  CompletionCall,
  CompletionOutcome,
  CompletionStream,
  Completions,
} from "./completions.types.ts";
import { agentIdOf } from "./completions.types.ts";

/** What a model call reads of its request. */
export type ModelCallRequest = Pick<
  RequestTo,
  "caller" | "request_id" | "cut_off" | "hungUp" | "watchCaller" | "facts" | "route"
>;

/**
 * Answers a model call over HTTP, in one piece or streamed, in the shape of the caller's API (`writer`).
 * Every endpoint for model calls uses it, so all hold, call and settle in the same way.
 */
export async function answerCall(
  http: ModelCallRequest,
  completions: Completions,
  {
    request,
    writer,
    ...of_provider
  }: { request: ChatRequest; writer: AnswerWriter } & Pick<
    CompletionCall,
    "provider_headers" | "native" | "needs_vision"
  >,
): Promise<Exclude<Answer, { kind: "json" }> | JsonAnswer<never, 200>> {
  const live = request.stream === true || agentIdOf(request.model) !== null ? http.watchCaller() : null;
  const call = { ...callOf(http, request, live), ...of_provider };
  http.facts.hold_id = call.hold_id;
  try {
    if (request.stream === true && live !== null) {
      const events = await completions.stream(call);
      noteAnswer(http.facts, () => events.outcome());
      const feed = writtenEvents({ next: () => events.next(), leave: () => events.return() }, writer);
      http.facts.broken = () => lostAccess(live) ?? feed.failure();
      http.facts.hungUp = () => call.signal.aborted;
      const listener = { live, request_id: call.request_id, errorText: writer.failed };
      if (!call.signal.aborted) return { kind: "events", feed, listener };
      await feed.leave();
      live.refused.throwIfAborted();
      return { kind: "hung_up" };
    }
    const { response, ...outcome } = await completions.complete(call);
    noteAnswer(http.facts, () => outcome);
    return json(await wholeAnswer(writer, response)) as JsonAnswer<never, 200>;
  } catch (error) {
    // A revoked key cancels the runs of an agent too, and that may come first.
    await live?.check();
    live?.refused.throwIfAborted();
    http.cut_off.throwIfAborted();
    if (call.signal.aborted) return { kind: "hung_up" };
    throw renamed(error, writer);
  }
}

/** `live`: null for an answer in one piece, which is completed even if its caller hangs up, unless the node stops. */
function callOf(
  { caller, request_id, cut_off, hungUp, route }: ModelCallRequest,
  request: CompletionCall["request"],
  live: LiveCaller | null,
): CompletionCall {
  return {
    request,
    caller: payerOf({ ...caller, labels: labelsOf(request) }),
    agent_id: null,
    run_id: null,
    hold_id: newId(),
    request_id,
    timing: { api: modelApiOf(route), began_ms: monotonicMs() },
    // A hang-up ends a stream and cancels an agent's run. An answer in one piece is completed and charged, because the
    // provider charges for it too; a retry with an Idempotency-Key gets it.
    signal: live === null ? cut_off : AbortSignal.any([hungUp(), live.refused]),
  };
}

/** The code of the error that ended the stream because its caller lost access, or because the node stops. */
export function lostAccess({ refused }: LiveCaller): string | null {
  return refused.aborted ? (refused.reason as PurserError).code : null;
}

/** The charge for the request's log line. */
function noteAnswer(facts: RequestFacts, outcomeOf: () => Omit<CompletionOutcome, "complete"> | null): void {
  facts.answered = () => {
    const outcome = outcomeOf();
    if (outcome === null) return null;
    const { model_id, provider = null, usage } = outcome;
    return { model: model_id, provider, tokens: usage.total_tokens, cost_tokens: usage.cost_tokens };
  };
}

/** The parts of an answer as the caller's server-sent events. */
export function writtenEvents(
  parts: { next: CompletionStream["next"]; leave(): unknown },
  writer: Pick<AnswerWriter, "write">,
): Required<EventFeed> {
  let failure: string | null = null;

  async function next(): Promise<IteratorResult<string, undefined>> {
    while (failure === null) {
      const step = await parts.next();
      if (step.done === true) return step;
      for (const event of step.value.events) if (event.type === "error") failure = event.error.code;
      const value = await writer.write(step.value);
      if (value !== "") return { done: false, value };
    }
    return { done: true, value: undefined };
  }
  return { next, leave: parts.leave, failure: () => failure };
}

/** Types of tools that OpenAI and Anthropic define, with their versions (`web_search_20250305`). */
const HOSTED_TOOL =
  /^(web_search|web_fetch|file_search|code_interpreter|code_execution|computer|computer_use|image_generation|mcp|mcp_toolset|memory|local_shell|shell|bash|text_editor|apply_patch|tool_search_tool_(regex|bm25))(_preview)?(_\d{4}_?\d{2}_?\d{2})?$/;

/** The types of dropped tools for the log. Callers choose them, so an unknown one is `other`. */
export function shownTypes(types: readonly string[]): string[] {
  return [...new Set(types.map((type) => (HOSTED_TOOL.test(type) ? type : "other")))];
}

/** The answer in the caller's shape. It is charged, so an error of the translation tells clients not to retry. */
async function wholeAnswer(writer: AnswerWriter, response: ChatResponse): Promise<object> {
  try {
    return await writer.whole(response);
  } catch (error) {
    throw asPurserError(error).with({ has_acted: true });
  }
}

/** The error with the caller's name of its field. */
function renamed(error: unknown, writer: AnswerWriter): unknown {
  if (!(error instanceof PurserError) || error.shape.param === undefined) return error;
  const { param, message } = error.shape;
  const name = writer.paramOf(param);
  return error.with({ param: name, message: message.replaceAll(param, name) });
}
