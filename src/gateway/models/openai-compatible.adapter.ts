import { StringDecoder } from "node:string_decoder";
import type { ChatResponse } from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { isTooDeep, jsonBytes } from "../../platform/lib/json.ts";
import type { AnswerPart } from "./answer-events.ts";
import { responseBytes } from "./answer-message.ts";
import { createChatReader } from "./chat-reader.ts";
import { isFailedAnswer, reshapeAnswer } from "./chat-shape.ts";
import type {
  CallOptions,
  Completion,
  ModelRequest,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";
import { type ProviderAnswer, post, readText } from "./provider-connections.ts";
import { brokenProvider, failedAnswer, failureOfStatus, failureOfThrown, secretsOf } from "./provider-errors.ts";
import { markRoute } from "./reasoning.ts";
import { estimateCounts, heldInput } from "./token-count.ts";
import { createUsageReports } from "./usage-report.ts";

/** Timeout of a stream before its first byte and between two bytes. */
export const SILENCE_MS = 60_000;
/** No completion is larger. Reading stops at this size. */
const MAX_ANSWER_BYTES = 33_554_432;
export const MAX_ERROR_BYTES = 65_536;
/** Answers are read as they come. Without this header, a server may compress them. */
export const PLAIN = { "accept-encoding": "identity" };

/**
 * Any provider with OpenAI's chat completions API. It sends the forwarded fields and sets model, output cap and usage.
 */
export function createOpenAiCompatible(settings: { base_url: string; api_key: string | null }): Provider {
  const { origin, pathname } = new URL(settings.base_url);
  const path = `${pathname.replace(/\/+$/, "")}/chat/completions`;
  const headers: Record<string, string> = { "content-type": "application/json", accept: "*/*", ...PLAIN };
  const secrets = secretsOf(settings);
  if (settings.api_key !== null) headers.authorization = `Bearer ${settings.api_key}`;

  async function send(request: ProviderRequest, { signal, deadline_ms, onSent }: CallOptions): Promise<ProviderAnswer> {
    const left_ms = Math.max(1, deadline_ms - monotonicMs());
    const answer = await post({
      origin,
      path,
      headers,
      signal,
      onSent,
      body: Buffer.concat([request.body_start ?? (await bodyStart(request)), bodyEnd(request)]),
      headersTimeout: request.stream ? Math.min(left_ms, SILENCE_MS) : left_ms,
      bodyTimeout: Math.min(left_ms, SILENCE_MS),
    });
    if (answer.status === 200) return answer;
    const text = await readText(answer, MAX_ERROR_BYTES).catch(() => "");
    throw failureOfStatus({ status: answer.status, body: text, headers: answer.headers, secrets }, request.model);
  }

  return {
    async prepare(call) {
      const body_start = await bodyStart(call);
      const length = body_start.length + bodyEnd(call).length;
      return { ...call, body_start, ...(await heldInput(call, length)) };
    },

    async complete(request, options) {
      try {
        const text = await readText(await send(request, options), MAX_ANSWER_BYTES);
        return completionOf(parsedOrNull(text), request, { ...options, secrets });
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },

    async stream(request, options) {
      try {
        return partStream(await send(request, options), request, { ...options, secrets });
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },
  };
}

/** The body without the fields that `bodyEnd` writes. It has messages, so more fields can follow. */
async function bodyStart({ request }: ModelRequest): Promise<Buffer> {
  const { model: _model, max_tokens, max_completion_tokens, stream, stream_options, ...rest } = request;
  return (await jsonBytes(rest)).subarray(0, -1);
}

/** The end of the body: the model, the output cap and the request for usage. */
function bodyEnd({ request, model, max_output_tokens, stream }: ModelRequest): Buffer {
  const { max_tokens, max_completion_tokens, stream_options } = request;
  // Most servers accept only `max_tokens`.
  const field = max_completion_tokens != null && max_tokens == null ? "max_completion_tokens" : "max_tokens";
  const fields = {
    model: model.provider_model,
    [field]: max_output_tokens,
    ...(stream ? { stream, stream_options: { ...stream_options, include_usage: true } } : {}),
  };
  return Buffer.from(`,${JSON.stringify(fields).slice(1)}`);
}

/** `secrets`: texts that no caller may see. */
type Receiving = CallOptions & { secrets: readonly string[] };

function completionOf(answer: unknown, request: ProviderRequest, { onDisbelieved, secrets }: Receiving): Completion {
  const { model } = request;
  const response = answer as (ChatResponse & { error?: unknown }) | null;
  const choices: unknown = response?.choices;
  if (isObject(answer) && (!Array.isArray(choices) || Boolean(answer.error))) {
    throw failedAnswer(model, "an answer with an error", { body: answer, secrets });
  }
  if (response == null || !Array.isArray(choices) || choices.length === 0 || !choices.every(isReadable)) {
    throw brokenProvider(model, "an answer that is no completion");
  }
  if (isFailedAnswer(response)) throw failedAnswer(model, "an answer that failed", { body: response, secrets });
  reshapeAnswer(response);
  const receivedBytes = () => responseBytes(response);
  const reports = createUsageReports(request, onDisbelieved);
  reports.take(response as unknown as Record<string, unknown>, receivedBytes);
  const counts = reports.counts() ?? estimateCounts(request, receivedBytes());
  response.model = model.id;
  markRoute(response.choices, model);
  return { response, counts };
}

/** Whether a choice can be translated for every endpoint. The charge comes first, so it is checked here. */
function isReadable(choice: { message?: unknown } | null): boolean {
  const message = choice?.message;
  if (!isObject(message)) return false;
  const { tool_calls, reasoning_details } = message;
  if (tool_calls != null && !(Array.isArray(tool_calls) && tool_calls.every(isObject))) return false;
  return !Array.isArray(reasoning_details) || reasoning_details.every(isObject);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function partStream(
  answer: ProviderAnswer,
  request: ProviderRequest,
  { signal, deadline_ms, onDisbelieved, secrets }: Receiving,
): ProviderStream {
  const { model } = request;
  const decoder = new StringDecoder("utf8");
  const reader = createChatReader(request, onDisbelieved, secrets);
  let bytes = 0;
  /** The next parts. */
  let read: AnswerPart[] = [];
  let is_closed = false;

  function partsIn(chunk: Buffer): AnswerPart[] {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw brokenProvider(model, "a stream without end");
    if (monotonicMs() > deadline_ms) throw errors.upstreamTimeout();
    return reader.push(decoder.write(chunk));
  }

  async function next(): Promise<IteratorResult<AnswerPart, undefined>> {
    try {
      for (;;) {
        const value = read.shift();
        if (value !== undefined) return { done: false, value };
        if (reader.isDone() || is_closed) break;
        const chunk = await answer.read();
        is_closed = chunk === null;
        read = chunk === null ? reader.close() : partsIn(chunk);
      }
    } catch (thrown) {
      answer.destroy();
      throw failureOfThrown(thrown, model, signal);
    }
    if (!is_closed) answer.drain();
    return { done: true, value: undefined };
  }

  return { parts: { next }, counts: reader.counts, cancel: answer.destroy };
}

/** The value of a JSON text; null for any other text, and for one that nests too deeply to be stored. */
export function parsedOrNull(text: string): unknown {
  try {
    return isTooDeep(text) ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
