import { fetch as providerFetch } from "undici";
import { errors } from "../errors.ts";
import { monotonicMs, realNowMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import { jsonBytes } from "../platform/json-bytes.ts";
import { retryAfterSeconds } from "../platform/retry-after.ts";
import { generatedText } from "./generated-text.ts";
import {
  type ChunkChoice,
  countsOfResult,
  createChoiceMapper,
  responseOf,
  type StreamPart,
} from "./language-model-answer.ts";
import { type LanguageModel, languageModelCall } from "./language-model-prompt.ts";
import type { CallOptions, Counts, Model, Provider, ProviderRequest, ProviderStream } from "./models.types.ts";
import { connections, noteSent } from "./provider-connections.ts";
import { brokenProvider, failureOfStatus, failureOfThrown } from "./provider-errors.ts";
import { traitsOf } from "./providers.ts";
import { estimateCounts, heldInput } from "./token-count.ts";

/** No completion is larger. Reading stops at this size. */
const MAX_ANSWER_BYTES = 33_554_432;

/** Tells an adapter's `fetch` the output cap of the hold; it never leaves the process. */
export const CAP_HEADER = "x-purser-cap";

/** The AI SDK's own errors about a prompt, before it sends a request. */
const REFUSED_HERE = new Set(["AI_UnsupportedFunctionalityError", "AI_InvalidPromptError", "AI_InvalidArgumentError"]);

/**
 * A provider over the AI SDK's language models: one conversion for all APIs that are not OpenAI's. The first call loads
 * the SDK, because most services use only some providers.
 */
export function createLanguageModelProvider(load: () => Promise<(provider_model: string) => LanguageModel>): Provider {
  let loading: ReturnType<typeof load> | undefined;
  const languageModel = async ({ provider_model }: Model): Promise<LanguageModel> => {
    loading ??= load();
    return (await loading)(provider_model);
  };
  const callOf = ({ request, model, max_output_tokens }: ProviderRequest, options: CallOptions) => ({
    ...languageModelCall(request, model.kind),
    maxOutputTokens: max_output_tokens,
    ...(traitsOf(model.kind).adds_thinking_to_cap ? { headers: { [CAP_HEADER]: String(max_output_tokens) } } : {}),
    abortSignal: AbortSignal.any([
      options.signal,
      AbortSignal.timeout(Math.max(1, Math.ceil(options.deadline_ms - monotonicMs()))),
    ]),
  });
  return {
    async prepare(call) {
      const { length } = await jsonBytes(call.request);
      return { ...call, ...heldInput(call, length) };
    },

    async complete(request, options) {
      const { model } = request;
      try {
        const language_model = await languageModel(model);
        const result = await noteSent(options.onSent, () => language_model.doGenerate(callOf(request, options)));
        const response = responseOf(result, { ...newIdentity(), model: model.id });
        const counts = countsOfResult(result.usage) ?? estimateCounts(request, generatedText(response.choices));
        return { response, counts };
      } catch (thrown) {
        throw failureOf(thrown, model, options.signal);
      }
    },

    async stream(request, options) {
      try {
        const language_model = await languageModel(request.model);
        const { stream } = await noteSent(options.onSent, () => language_model.doStream(callOf(request, options)));
        return chunkStream(stream.getReader(), request, options);
      } catch (thrown) {
        throw failureOf(thrown, request.model, options.signal);
      }
    },
  };
}

function chunkStream(
  reader: ReadableStreamDefaultReader<StreamPart>,
  request: ProviderRequest,
  { signal }: CallOptions,
): ProviderStream {
  const { model } = request;
  const identity = newIdentity();
  const choiceOf = createChoiceMapper();
  const kept: ChunkChoice[] = [];
  let reported: Counts | null = null;
  let finished = false;

  async function next(): Promise<IteratorResult<string>> {
    try {
      for (;;) {
        const { done, value: part } = await reader.read();
        if (done) break;
        if (part.type === "error") throw part.error;
        if (part.type === "finish") {
          reported = countsOfResult(part.usage);
          finished = true;
        }
        const choice = choiceOf(part);
        if (choice === null) continue;
        kept.push(choice);
        const chunk = { ...identity, object: "chat.completion.chunk", model: model.id, choices: [choice] };
        return { done: false, value: `data: ${JSON.stringify(chunk)}\n\n` };
      }
      if (!finished) throw brokenProvider(model, "a stream that was cut off");
      return { done: true, value: undefined };
    } catch (thrown) {
      throw failureOf(thrown, model, signal);
    }
  }

  return {
    blocks: { next },
    identity: () => identity,
    counts: () => reported ?? estimateCounts(request, generatedText(kept)),
    cancel: () => void reader.cancel().catch(() => {}),
  };
}

/** The fields that are read from the AI SDK's errors, which carry the provider's whole answer. */
interface SdkError {
  name?: string;
  statusCode?: unknown;
  data?: unknown;
  responseHeaders?: Record<string, string>;
}

function failureOf(thrown: unknown, model: Model, signal: AbortSignal): unknown {
  const { name, statusCode, data, responseHeaders } = thrown as SdkError;
  if (typeof statusCode === "number" && statusCode !== 200) {
    const retry_after_s = retryAfterSeconds(responseHeaders?.["retry-after"]);
    return failureOfStatus({ status: statusCode, body: data, retry_after_s }, model);
  }
  if (REFUSED_HERE.has(name ?? "")) {
    return errors.invalidValue(
      "messages",
      `${model.id} cannot take these messages. System messages go first, text and images only.`,
    );
  }
  return failureOfThrown(thrown, model, signal);
}

function newIdentity(): { id: string; created: number } {
  return { id: `chatcmpl-${newId()}`, created: Math.floor(realNowMs() / 1000) };
}

/** `fetch` that fails if an answer is larger than any completion. */
export const boundedFetch: typeof fetch = async (input, init) => {
  const sent = { ...init, dispatcher: connections } as Parameters<typeof providerFetch>[1];
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
