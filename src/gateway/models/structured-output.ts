import type { ChatMessage, ChatRequest, ChatResponse } from "../../api/contract/completions.ts";
import { jsonOrUndefined } from "../../platform/lib/json.ts";
import type { AnswerEvent, AnswerPart } from "./answer-events.ts";
import { responseEvents } from "./answer-message.ts";
import { gatewayErrors } from "./errors.ts";
import { schemaFault } from "./json-schema.ts";
import type {
  CallOptions,
  Completion,
  Counts,
  ModelRequest,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";
import { isSameTier } from "./pricing.ts";
import { estimateCounts, sumOfCounts } from "./token-count.ts";

/**
 * JSON answers of models whose provider does not sell them: the schema is part of the prompt, the answer is checked, and
 * the model may correct it once. Both calls are one charge under one hold.
 */

type CheckJson = NonNullable<ProviderRequest["checkJson"]>;

const ANY_OBJECT = { type: "object" };
/** A shorter correction is of no use. */
const LEAST_OUTPUT_TOKENS = 64;
/** The most tokens of the words around the schema and the fault. */
const WORDS_TOKENS = 300;
/** The most characters of a fault at each end. The caller's schema and the model's answer choose its names. */
const SHOWN_FAULT = 100;
const FENCE = "```";
const OPENING = /^```(?:json)?\s*\n/;

/** `provider` with JSON answers for all models. */
export function withStructuredOutput(provider: Provider): Provider {
  return {
    ...provider,
    async prepare(call) {
      const schema = schemaToCheck(call);
      if (schema === null) return provider.prepare(call);
      // One answer is checked and corrected; more would be billed and dropped.
      if ((call.request.n ?? 1) > 1) throw gatewayErrors.unsupportedParameter("n");
      const { native: _, ...converted } = call;
      const first = await provider.prepare({ ...converted, request: instructed(call.request, schema) });
      // The second call sends the first one again, with its answer and the fault.
      const input_tokens = 2 * first.input_tokens + WORDS_TOKENS;
      const held = { input_tokens, call_input_tokens: first.input_tokens, resends_output: true as const };
      return { ...first, ...held, checkJson: call.findJsonFault ?? ((value) => schemaFault(value, schema)) };
    },
    complete(request, options) {
      if (request.checkJson === undefined) return provider.complete(request, options);
      const { checkJson, ...call } = request;
      return checkedCompletion(provider, { call, checkJson, options });
    },
    async stream(request, options) {
      if (request.checkJson === undefined) return provider.stream(request, options);
      const { checkJson, ...call } = request;
      const checked = { call, checkJson, options };
      if (request.model.supports.streaming) return checkedStream(provider, checked);
      const whole = { ...call, stream: false };
      return streamOf(await checkedCompletion(provider, { call: whole, checkJson, options }));
    },
  };
}

/** The schema that the service must check; null: the provider does, or the request has none. */
function schemaToCheck(call: ModelRequest): Record<string, unknown> | null {
  const { request, model, findJsonFault } = call;
  const format = request.response_format;
  if (format?.type === "json_schema") {
    const is_ensured = findJsonFault === undefined || format.json_schema.strict === true;
    return model.supports.json_schema && is_ensured ? null : (format.json_schema.schema ?? ANY_OBJECT);
  }
  // Claude's API has schemas, and no plain JSON mode.
  return format?.type === "json_object" && model.kind === "anthropic" ? ANY_OBJECT : null;
}

function instructed({ response_format: _, ...request }: ChatRequest, schema: object): ChatRequest {
  const content = `Answer with one JSON value and nothing else. It must be valid against this JSON schema: ${JSON.stringify(schema)}`;
  const first_other = request.messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const messages = request.messages.toSpliced(Math.max(0, first_other), 0, { role: "system", content });
  return { ...request, messages };
}

/** Whole answers, for callers that want no stream and for models without streams. */
async function checkedCompletion(
  provider: Provider,
  { call, checkJson, options }: { call: ProviderRequest; checkJson: CheckJson; options: CallOptions },
): Promise<Completion> {
  const first = await provider.complete(call, options);
  const content = textOf(first.response);
  const correction = correctionOf(call, { content, counts: first.counts, checkJson });
  if (correction === null || options.hung_up?.aborted === true) return answered(first, content);
  let sent: ProviderRequest | null = null;
  try {
    const second_call = await provider.prepare(correction);
    const onSent = () => {
      sent = second_call;
    };
    const second = await provider.complete(second_call, { ...options, onSent });
    return answered({ ...second, counts: sumOfCounts([first.counts, second.counts]) }, textOf(second.response));
  } catch {
    // The first answer is billed. It is invalid, but it is an answer. A caller that left pays for the second input too.
    if (sent === null || !options.signal.aborted) return first;
    return { ...first, counts: sumOfCounts([first.counts, estimateCounts(sent, 0)]) };
  }
}

/** The JSON text of an answer; null when it has none. Calls of tools are not checked. */
function textOf({ choices }: ChatResponse): string | null {
  const message = choices[0]?.message;
  if (typeof message?.content !== "string" || (message.tool_calls?.length ?? 0) > 0) return null;
  return jsonText(message.content);
}

function answered(completion: Completion, content: string | null): Completion {
  const message = completion.response.choices[0]?.message;
  if (message !== undefined && content !== null) message.content = content;
  return completion;
}

/** The whole answer as a stream: it can only be checked once it is whole. */
function streamOf({ response, counts }: Completion): ProviderStream {
  const parts = [{ events: responseEvents(response) }].values();
  return { parts: { next: async () => parts.next() }, counts: () => counts, cancel: () => {} };
}

/** A call that has begun and not ended. */
interface Running {
  request: ProviderRequest;
  /** Null until the provider answers. */
  stream: ProviderStream | null;
  is_sent: boolean;
}

/**
 * A checked answer as a stream: its start when the provider begins to answer, and the whole answer once it is checked.
 * The provider's calls are streams too, because only then is it known what a caller that leaves has to pay.
 */
function checkedStream(
  provider: Provider,
  { call, checkJson, options }: { call: ProviderRequest; checkJson: CheckJson; options: CallOptions },
): ProviderStream {
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const ended: Counts[] = [];
  const now: { running: Running | null } = { running: null };

  /** Starts a call and waits for its first part. */
  async function begin(request: ProviderRequest) {
    const running: Running = { request, stream: null, is_sent: false };
    now.running = running;
    const onSent = () => {
      running.is_sent = true;
      options.onSent?.();
    };
    const stream = await provider.stream(request, { ...options, signal, onSent });
    running.stream = stream;
    return { stream, first: await stream.parts.next() };
  }

  /** Reads a call to its end. */
  async function read({ stream, first }: Awaited<ReturnType<typeof begin>>): Promise<AnswerEvent[]> {
    const events: AnswerEvent[] = [];
    for (let step = first; step.done !== true; step = await stream.parts.next()) events.push(...step.value.events);
    ended.push(stream.counts());
    now.running = null;
    return events;
  }

  /** Null if the correction failed: the first answer is invalid, but it is an answer. */
  async function corrected(correction: ProviderRequest): Promise<AnswerEvent[] | null> {
    try {
      return await read(await begin(await provider.prepare(correction)));
    } catch (error) {
      signal.throwIfAborted();
      if (now.running === null) throw error;
      const counts = now.running.stream?.counts();
      if (counts !== undefined && counts.output_tokens > 0) ended.push(counts);
      now.running = null;
      return null;
    }
  }

  async function* checkedParts(): AsyncGenerator<AnswerPart, undefined> {
    const begun = await begin(call);
    const opening = begun.first.done === true ? [] : begun.first.value.events.filter(isStart);
    yield { events: opening };
    const first = await read(begun);
    const correction = correctionOf(call, { content: jsonOf(first), counts: ended[0] as Counts, checkJson });
    const may_correct = correction !== null && options.hung_up?.aborted !== true;
    const answer = (may_correct ? await corrected(correction) : null) ?? first;
    yield { events: withJson(answer.filter((event) => opening.length === 0 || !isStart(event))) };
  }

  function counts(): Counts {
    const { running } = now;
    const unended =
      running?.stream?.counts() ?? (running?.is_sent === true ? estimateCounts(running.request, 0) : null);
    const [first, ...others] = unended === null ? ended : [...ended, unended];
    return first === undefined ? estimateCounts(call, 0) : sumOfCounts([first, ...others]);
  }

  const parts = checkedParts();
  return {
    parts: { next: () => parts.next() },
    counts,
    cancel() {
      stop.abort();
      now.running?.stream?.cancel();
    },
  };
}

function isStart({ type }: AnswerEvent): boolean {
  return type === "start";
}

function isText({ type }: AnswerEvent): boolean {
  return type === "text";
}

function textIn(events: readonly AnswerEvent[]): string {
  return events.map((event) => (event.type === "text" ? event.text : "")).join("");
}

/** The JSON text of an answer; null for one with calls of tools, which are not checked. */
function jsonOf(events: readonly AnswerEvent[]): string | null {
  if (events.some(({ type }) => type === "call")) return null;
  return jsonText(textIn(events));
}

/** The events with the whole text in one, before the first call and the finish. */
function withJson(events: readonly AnswerEvent[]): AnswerEvent[] {
  const said = textIn(events);
  const others = events.filter((event) => !isText(event));
  if (said === "") return others;
  const at = others.findIndex(({ type }) => type === "call" || type === "finish");
  const text: AnswerEvent = { type: "text", choice: 0, text: jsonOf(events) ?? said };
  return others.toSpliced(at === -1 ? others.length : at, 0, text);
}

/**
 * The call that corrects an answer. Null: the answer is valid or not checked, the output cap is used up, or the call
 * would be billed in a higher tier than the first one, and a charge has the rates of one tier.
 */
export function correctionOf(
  call: ProviderRequest,
  answer: { content: string | null; counts: Counts; checkJson: CheckJson },
): ProviderRequest | null {
  const { content, counts, checkJson } = answer;
  if (content === null) return null;
  const fault = faultOf(content, checkJson);
  const max_output_tokens = call.max_output_tokens - counts.output_tokens;
  const next_input_tokens = counts.input_tokens + counts.output_tokens + WORDS_TOKENS;
  if (fault === null || max_output_tokens < LEAST_OUTPUT_TOKENS) return null;
  if (!isSameTier(call.model, counts.input_tokens, next_input_tokens)) return null;
  const messages: ChatMessage[] = [
    ...call.request.messages,
    { role: "assistant", content },
    {
      role: "user",
      content: `This is not valid: ${shortened(fault)}. Answer with the corrected JSON and nothing else.`,
    },
  ];
  return { ...call, request: { ...call.request, messages }, max_output_tokens };
}

/** The text of an answer without the fence that many models put around JSON. Linear in any text. */
export function jsonText(text: string): string {
  const trimmed = text.trim();
  const [opening] = OPENING.exec(trimmed) ?? [];
  if (opening === undefined || !trimmed.endsWith(FENCE)) return trimmed;
  return trimmed.slice(opening.length, -FENCE.length).replace(/\n$/, "");
}

function shortened(fault: string): string {
  if (fault.length <= 2 * SHOWN_FAULT) return fault;
  return `${fault.slice(0, SHOWN_FAULT)} … ${fault.slice(-SHOWN_FAULT)}`.toWellFormed();
}

function faultOf(content: string, checkJson: CheckJson): string | null {
  const value = jsonOrUndefined(content);
  return value === undefined ? "it is not JSON" : checkJson(value);
}
