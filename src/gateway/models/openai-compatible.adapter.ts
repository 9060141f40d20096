import type { ChatResponse } from "../../api/contract/completions.ts";
import type { AnswerEvent } from "./answer-events.ts";
import { createMessageBuilder, responseBytes } from "./answer-message.ts";
import { createChatReader } from "./chat-reader.ts";
import { isFailedAnswer, reshapeAnswer } from "./chat-shape.ts";
import type { Completion, ModelRequest, Provider, ProviderRequest } from "./models.types.ts";
import { MAX_ANSWER_BYTES, partStream, type Receiving, SILENCE_MS, send, wholeAnswer } from "./provider-answers.ts";
import { type ProviderAnswer, readText } from "./provider-connections.ts";
import { brokenProvider, collectSecrets, failedAnswer, failureOfThrown } from "./provider-errors.ts";
import { noteResponseModel } from "./provider-spans.ts";
import { markRoute } from "./reasoning.ts";
import { estimateCounts, heldInput } from "./token-count.ts";
import { createUsageReports } from "./usage-report.ts";

/**
 * Any provider with OpenAI's chat completions API. It sends the forwarded fields and sets model, output cap and usage.
 */
export function createOpenAiCompatible(settings: { base_url: string; api_key: string | null }): Provider {
  const { origin, pathname } = new URL(settings.base_url);
  const url = new URL(`${pathname.replace(/\/+$/, "")}/chat/completions`, origin);
  const headers: Record<string, string> = { "content-type": "application/json", accept: "*/*" };
  const secrets = collectSecrets(settings);
  if (settings.api_key !== null) headers.authorization = `Bearer ${settings.api_key}`;

  async function ask(request: ProviderRequest, receiving: Receiving): Promise<ProviderAnswer> {
    const body = Buffer.concat([request.body_start ?? bodyStart(request), bodyEnd(request)]);
    return send(request, { url, headers, body, silence_ms: SILENCE_MS }, receiving);
  }

  return {
    async prepare(call) {
      const body_start = bodyStart(call);
      const length = body_start.length + bodyEnd(call).length;
      return { ...call, body_start, ...heldInput(call, length) };
    },

    async complete(request, options) {
      try {
        const receiving = { ...options, secrets };
        const text = await readText(await ask(request, receiving), MAX_ANSWER_BYTES);
        // Some servers stream every answer.
        if (/^\s*(?:data|event|id)?:/.test(text)) return streamedCompletion(text, request, receiving);
        return toCompletion(wholeAnswer(text), request, receiving);
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },

    async stream(request, options) {
      try {
        const answer = await ask(request, { ...options, secrets });
        return partStream(answer, createChatReader(request, options.onDisbelieved, secrets), request, options);
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },
  };
}

/** The body without the fields that `bodyEnd` writes. It has messages, so more fields can follow. */
function bodyStart({ request }: ModelRequest): Buffer {
  const { model: _model, max_tokens, max_completion_tokens, stream, stream_options, ...rest } = request;
  return Buffer.from(JSON.stringify(rest).slice(0, -1));
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

function toCompletion(answer: unknown, request: ProviderRequest, { onDisbelieved, secrets }: Receiving): Completion {
  const { model } = request;
  const response = answer as (ChatResponse & { error?: unknown }) | null;
  const choices: unknown = response?.choices;
  if (response != null && Array.isArray(choices)) response.choices = choices.filter((choice) => choice !== null);
  if (isObject(answer) && (!Array.isArray(choices) || Boolean(answer.error))) {
    throw failedAnswer(model, "an answer with an error", { body: answer, secrets });
  }
  if (
    response == null ||
    !Array.isArray(choices) ||
    response.choices.length === 0 ||
    !response.choices.every(isReadable)
  ) {
    throw brokenProvider(model, "an answer that is no completion");
  }
  if (isFailedAnswer(response)) throw failedAnswer(model, "an answer that failed", { body: response, secrets });
  reshapeAnswer(response);
  const receivedBytes = () => responseBytes(response);
  const reports = createUsageReports(request, onDisbelieved);
  reports.take(response as unknown as Record<string, unknown>, receivedBytes);
  const counts = reports.counts() ?? estimateCounts(request, receivedBytes());
  noteResponseModel(response.model);
  response.model = model.id;
  markRoute(response.choices, model);
  return { response, counts };
}

/** The first choice of an answer that came as a stream. */
function streamedCompletion(text: string, request: ProviderRequest, { onDisbelieved, secrets }: Receiving): Completion {
  const reader = createChatReader(request, onDisbelieved, secrets);
  const events = [...reader.push(text), ...reader.close()].flatMap((part) => part.events);
  const message = createMessageBuilder();
  events.forEach(message.add);
  const { id, created } = events.find(({ type }) => type === "start") as Extract<AnswerEvent, { type: "start" }>;
  const choice = { index: 0, message: message.message(), logprobs: null, finish_reason: message.finishReason() };
  const response = { id, object: "chat.completion" as const, created, model: request.model.id, choices: [choice] };
  return { response, counts: reader.counts() };
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
