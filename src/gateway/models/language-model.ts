import { AsyncLocalStorage } from "node:async_hooks";
import { fetch as providerFetch } from "undici";
import type { ChatRequest } from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { untilTurn } from "../../platform/lib/event-loop-turn.ts";
import { newId } from "../../platform/lib/ids.ts";
import { fieldsOf, jsonBytes } from "../../platform/lib/json.ts";
import { type AnswerEvent, type AnswerPart, generatedBytes, newIdentity } from "./answer-events.ts";
import { responseBytes } from "./answer-message.ts";
import { knownOnly } from "./known-answers.ts";
import {
  type AnswerOptions,
  countsOfResult,
  createEventMapper,
  endingOfResult,
  responseOf,
  type StreamPart,
} from "./language-model-answer.ts";
import type { Body, Dialect, LanguageModel, LanguageModelCall } from "./language-model-dialect.ts";
import { languageModelCall } from "./language-model-prompt.ts";
import type {
  CallOptions,
  Counts,
  Model,
  ModelRequest,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";
import { connections, noteSent } from "./provider-connections.ts";
import { brokenProvider, failedAnswer, failureOfStatus, failureOfThrown, secretsOf } from "./provider-errors.ts";
import { isDefault } from "./request-fields.ts";
import { estimateCounts, heldInput } from "./token-count.ts";
import { believed } from "./usage-report.ts";

/** No completion is larger. Reading stops at this size. */
const MAX_ANSWER_BYTES = 33_554_432;

/** Settings of the reasoning and of the context, which the dialect corrects in the body. */
const ADJUSTED = ["reasoning_effort", "reasoning", "thinking", "output_config", "context_management"];

/** Data of files up to this length is given to the AI SDK. It writes a request as one text, 32 MB in over 100 ms. */
const MAX_SDK_DATA_CHARS = 65_536;

/** The part of a body that is sent at one time. */
const SENT_BYTES = 262_144;

/** The data of the present call's files, by the names that the AI SDK got in its place. `boundedFetch` puts it back. */
const long_data = new AsyncLocalStorage<ReadonlyMap<string, string>>();
/** Alone in its string, or at the end of a data: URL. Base64 needs no escapes. */
const DATA_NAME = /(purser-data-[0-9a-f-]{36})/;

/** The AI SDK's own errors about a prompt, before it sends a request. */
const REFUSED_HERE = new Set(["AI_UnsupportedFunctionalityError", "AI_InvalidPromptError", "AI_InvalidArgumentError"]);

/**
 * A provider over the AI SDK's language models: one conversion for all APIs that are not OpenAI's. The first call loads
 * the SDK, because most services use only some providers.
 */
export function createLanguageModelProvider(
  dialect: Dialect,
  connection: { base_url: string | null; api_key: string | null },
  load: () => Promise<(provider_model: string, fetch: typeof globalThis.fetch) => LanguageModel>,
): Provider {
  const secrets = secretsOf(connection);
  let loading: ReturnType<typeof load> | undefined;
  const languageModel = async (request: ProviderRequest): Promise<LanguageModel> => {
    loading ??= load();
    const { model, stream } = request;
    return (await loading)(model.provider_model, knownOnly(fetchFor(request, dialect), { dialect, model, stream }));
  };
  const callOf = ({ request, model, max_output_tokens, headers }: ProviderRequest, options: CallOptions) => ({
    ...languageModelCall(request, { model, dialect }),
    maxOutputTokens: max_output_tokens,
    ...(headers === undefined || dialect.name !== "anthropic" ? {} : { headers }),
    abortSignal: AbortSignal.any([
      options.signal,
      AbortSignal.timeout(Math.max(1, Math.ceil(options.deadline_ms - monotonicMs()))),
    ]),
  });
  return {
    async prepare(call) {
      const native_fields = call.native?.kind === dialect.name ? call.native.fields(call.model) : undefined;
      const { length } = await jsonBytes(call.request);
      const native_bytes = native_fields === undefined ? 0 : await nativeBytes(call, native_fields, length);
      const native = native_fields === undefined ? {} : { native_fields, native_bytes };
      const added_tokens = (call.request.tools ?? []).length === 0 ? 0 : dialect.tool_prompt_tokens;
      // The caller's own fields may be any text, so each byte of them is held as a token.
      const input = await heldInput(call, length, native_bytes + added_tokens);
      const held = { ...call, ...native, ...input };
      if (dialect.name !== "anthropic") return held;
      return { ...held, cache_writes: longestCache([...hintsOf(call.request), ...nativeHints(native_fields)]) };
    },

    async complete(request, options) {
      const { model } = request;
      try {
        const language_model = await languageModel(request);
        const { call, data } = withoutLongData(callOf(request, options));
        const ask = () => long_data.run(data, () => language_model.doGenerate(call));
        const result = await noteSent(options.onSent, ask);
        const has_failed =
          endingOfResult(result.finishReason) === "failed" || dialect.isFailed?.(result.response?.body) === true;
        if (has_failed) throw failedAnswer(model, "a failed answer", { body: result.response?.body, secrets });
        const response = responseOf(result, { ...newIdentity(), model: model.id }, answerOptions(request, dialect));
        const receivedBytes = () => responseBytes(response);
        const { onDisbelieved } = options;
        const report = believed(countsOfResult(result.usage, dialect), request, { receivedBytes, onDisbelieved });
        return { response, counts: report ?? estimateCounts(request, receivedBytes()) };
      } catch (thrown) {
        throw failureOf(thrown, { model, secrets }, options.signal);
      }
    },

    async stream(request, options) {
      try {
        const language_model = await languageModel(request);
        const { call, data } = withoutLongData(callOf(request, options));
        const includeRawChunks = dialect.countsSoFar !== undefined;
        const ask = () => long_data.run(data, () => language_model.doStream({ ...call, includeRawChunks }));
        const { stream } = await noteSent(options.onSent, ask);
        return eventStream(stream.getReader(), { request, dialect, secrets }, options);
      } catch (thrown) {
        throw failureOf(thrown, { model: request.model, secrets }, options.signal);
      }
    },
  };
}

/** The bytes that the caller's own fields have more than the converted request, of `length`. */
async function nativeBytes({ request }: ModelRequest, native_fields: object, length: number): Promise<number> {
  const { messages: _messages, tools: _tools, ...settings } = request;
  return Math.max(0, (await jsonBytes({ ...settings, ...native_fields })).length - length);
}

function eventStream(
  reader: ReadableStreamDefaultReader<StreamPart>,
  { request, dialect, secrets }: { request: ProviderRequest; dialect: Dialect; secrets: readonly string[] },
  { signal, onDisbelieved }: CallOptions,
): ProviderStream {
  const { model } = request;
  const believable = (report: Counts | null) =>
    believed(report, request, { receivedBytes: () => bytes, onDisbelieved });
  const eventsOf = createEventMapper(model.id, answerOptions(request, dialect));
  /** Of the generated text so far. */
  let bytes = 0;
  let reported: Counts | null = null;
  /** The counts from an event before the end. */
  let early: Counts | null = null;
  let finished = false;
  /** The start of the answer. It waits for an event of the provider: the SDK sends its own at the headers. */
  let opening: AnswerEvent[] = [];

  async function next(): Promise<IteratorResult<AnswerPart, undefined>> {
    try {
      for (;;) {
        const { done, value: part } = await reader.read();
        if (done) break;
        if (part.type === "error") {
          if (isUnknownEvent(part.error, dialect)) continue;
          throw part.error;
        }
        if (part.type === "stream-start") {
          opening = [{ type: "start", ...newIdentity(), model: model.id }];
          continue;
        }
        if (part.type === "raw") {
          early = believable(dialect.countsSoFar?.(part.rawValue) ?? null) ?? early;
          continue;
        }
        if (part.type === "finish") {
          // The SDK also ends a stream that its provider cut off or that failed.
          const ending = endingOfResult(part.finishReason);
          if (ending === null || ending === "failed") break;
          reported = believable(countsOfResult(part.usage, dialect));
          finished = true;
        }
        const events = [...opening, ...eventsOf(part)];
        opening = [];
        bytes += generatedBytes(events);
        if (events.length > 0) return { done: false, value: { events } };
      }
      if (!finished) throw brokenProvider(model, "a stream that failed or was cut off");
      return { done: true, value: undefined };
    } catch (thrown) {
      throw failureOf(thrown, { model, secrets }, signal);
    }
  }

  function countsUntilNow(): Counts {
    const estimated = estimateCounts(request, bytes);
    if (early === null) return estimated;
    // Before any output that the caller can see, a failure costs nothing. Afterwards hidden thoughts are billed too.
    const output = estimated.output_tokens === 0 ? estimated : early;
    const output_tokens = Math.max(estimated.output_tokens, output.output_tokens);
    return { ...early, output_tokens, reasoning_tokens: output.reasoning_tokens, estimated: true };
  }

  return {
    parts: { next },
    counts: () => reported ?? countsUntilNow(),
    cancel: () => void reader.cancel().catch(() => {}),
  };
}

/** Whether the SDK rejected an event because it does not know its type, and the stream goes on without it. */
function isUnknownEvent(error: unknown, { isIgnored }: Dialect): boolean {
  const { name, value } = fieldsOf(error);
  return name === "AI_TypeValidationError" && (value === null || isIgnored?.(value) === true);
}

/** The fields that are read from the AI SDK's errors, which carry the provider's whole answer. */
interface SdkError {
  name?: string;
  statusCode?: unknown;
  data?: unknown;
  /** The SDK reads errors of the usual shape only. */
  responseBody?: string;
  responseHeaders?: Record<string, string>;
}

function failureOf(
  thrown: unknown,
  { model, secrets }: { model: Model; secrets: readonly string[] },
  signal: AbortSignal,
): unknown {
  const { name, statusCode, data, responseBody, responseHeaders = {} } = thrown as SdkError;
  if (typeof statusCode === "number" && statusCode !== 200) {
    const body = responseBody ?? data;
    return failureOfStatus({ status: statusCode, body, headers: responseHeaders, secrets }, model);
  }
  if (REFUSED_HERE.has(name ?? "")) {
    return errors.invalidValue(
      "messages",
      `${model.id} cannot take these messages. Check the types of their parts (GET /api/v1/models, supports).`,
    );
  }
  // An error event of a stream is passed on as the provider sent it.
  const is_event = typeof thrown === "object" && !(thrown instanceof Error) && !signal.aborted;
  if (is_event) return failedAnswer(model, "an error event", { body: { error: thrown }, secrets });
  return failureOfThrown(thrown, model, signal);
}

interface Hinted {
  cache_control?: unknown;
  content?: unknown;
}

/** The cache hints of a request. */
function hintsOf({ messages, tools, cache_control }: ChatRequest): unknown[] {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const hinted = [{ cache_control }, ...(tools ?? []), ...messages, ...parts] as Hinted[];
  return hinted.flatMap((each) => each.cache_control ?? []);
}

/** The cache hints of Anthropic's own fields: of tools, of the system prompt, of blocks, and of blocks in blocks. */
function nativeHints(fields: Readonly<Record<string, unknown>> = {}): unknown[] {
  const listed = (value: unknown) => (Array.isArray(value) ? (value as (Hinted | null)[]) : []);
  const inside = (list: (Hinted | null)[]) => list.flatMap((each) => listed(each?.content));
  const blocks = inside(listed(fields.messages));
  const all = [...listed(fields.tools), ...listed(fields.system), ...blocks, ...inside(blocks)];
  return all.flatMap((each) => each?.cache_control ?? []);
}

/** The longest time to live among cache hints, which decides the price of a cache write. */
function longestCache(hints: readonly unknown[]): NonNullable<ProviderRequest["cache_writes"]> {
  if (hints.length === 0) return "none";
  return hints.some((hint) => fieldsOf(hint).ttl === "1h") ? "1h" : "5m";
}

function answerOptions({ request, model }: ProviderRequest, dialect: Dialect): AnswerOptions {
  const custom = (request.tools ?? []).flatMap((tool) => (tool.type === "custom" ? tool.custom.name : []));
  return { dialect, route: model.route, custom_tools: new Set(custom) };
}

/** The `fetch` of one call. It corrects the body that the SDK built. */
function fetchFor(call: ProviderRequest, dialect: Dialect): typeof fetch {
  const { request, model, native_fields } = call;
  const settings = Object.keys(dialect.settings).filter((field) => isSet(field, request[field]));
  // A body is parsed only where that can matter: a large one takes long.
  const is_adjusted = settings.length > 0 || [...ADJUSTED, ...model.forward].some((field) => request[field] != null);
  if (!is_adjusted && native_fields === undefined) return boundedFetch;
  return async (input, init = {}) => {
    const built = JSON.parse(String(init.body)) as Body;
    const body = dialect.adjust({ ...built, ...native_fields }, call);
    const given = Object.fromEntries(settings.map((field) => [dialect.settings[field], request[field]]));
    const { settings_in } = dialect;
    const sent =
      settings_in === null
        ? { ...body, ...given }
        : { ...body, [settings_in]: { ...fieldsOf(body[settings_in]), ...given } };
    if (native_fields === undefined) return boundedFetch(input, { ...init, body: JSON.stringify(sent) });
    // The caller's own fields have the data of its files.
    return boundedFetch(input, { ...init, ...inParts([await jsonBytes(sent)], init.headers) } as never);
  };
}

/** Whether a setting differs from what holds without it. */
function isSet(field: string, value: unknown): boolean {
  return value != null && !isDefault(field, value);
}

/** The call with a name in place of each long file, and the files' data by these names. No caller can guess a name. */
function withoutLongData(call: LanguageModelCall): { call: LanguageModelCall; data: ReadonlyMap<string, string> } {
  const data = new Map<string, string>();
  const prompt = call.prompt.map((message) => {
    if (message.role !== "user") return message;
    const content = message.content.map((part) => {
      if (part.type !== "file" || part.data.type !== "data" || typeof part.data.data !== "string") return part;
      if (part.data.data.length <= MAX_SDK_DATA_CHARS) return part;
      const name = `purser-data-${newId()}`;
      data.set(name, part.data.data);
      return { ...part, data: { ...part.data, data: name } };
    });
    return { ...message, content };
  });
  return { call: { ...call, prompt }, data };
}

/** A body that is sent in parts. fetch copies one in one part twice. */
function inParts(parts: readonly Buffer[], headers: RequestInit["headers"]) {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  async function* body() {
    for (const part of parts) {
      for (let from = 0; from < part.length; from += SENT_BYTES) {
        await untilTurn();
        yield part.subarray(from, from + SENT_BYTES);
      }
    }
  }
  const declared = new Headers(headers);
  declared.set("Content-Length", String(length));
  return { body: body(), duplex: "half", headers: Object.fromEntries(declared) };
}

/** The body and its headers with the present call's files, written in slices. */
async function withLongData(body: string, headers: RequestInit["headers"]) {
  const data = long_data.getStore();
  if (data === undefined || data.size === 0) return { body };
  const parts: Buffer[] = [];
  for (const [nth, part] of body.split(DATA_NAME).entries()) {
    // Every second part is a name.
    const file = nth % 2 === 0 ? undefined : data.get(part);
    if (file === undefined) parts.push(Buffer.from(part));
    else parts.push((await jsonBytes(file)).subarray(1, -1)); // without its quotes, which are around the name
  }
  return inParts(parts, headers);
}

/** `fetch` that fails if an answer is larger than any completion. */
const boundedFetch: typeof fetch = async (input, init) => {
  const body = typeof init?.body === "string" ? await withLongData(init.body, init.headers) : {};
  // A redirect would take the operator's key and the prompt to another server.
  const sent = { ...init, ...body, redirect: "manual", dispatcher: connections } as Parameters<typeof providerFetch>[1];
  const answer = (await providerFetch(input as string | URL, sent)) as unknown as Response;
  if (answer.body === null) return answer;
  let bytes = 0;
  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > MAX_ANSWER_BYTES) controller.error(new Error("an answer without end"));
      else controller.enqueue(chunk);
    },
  });
  return new Response(answer.body.pipeThrough(bounded), answer);
};
