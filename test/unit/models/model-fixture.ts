import type { ChatRequest } from "../../../src/api/contract/completions.ts";
import { createChatWriter } from "../../../src/gateway/completions/chat-writer.ts";
import type { AnswerPart } from "../../../src/gateway/models/answer-events.ts";
import type { Model, Provider, ProviderStream } from "../../../src/gateway/models/models.types.ts";
import { tierByPrice } from "../../../src/gateway/models/routing.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";

/** A model in the operator's file, with the rates of the contract's example. */
export function modelOf(fields: Partial<Model> = {}): Model {
  const model = {
    id: "lab/small",
    model_kind: "chat" as const,
    uuid: "00000000-0000-8000-a000-000000000001",
    name: "Lab small",
    owned_by: "lab",
    kind: "openai-compatible" as const,
    forward: [],
    part_tokens: { image: 4_096, file: null, audio: null },
    provider_model: "fake-large",
    route: null,
    routes: [],
    context_window: 128_000,
    max_output_tokens: 4_096,
    trial_eligible: true,
    supports: { tools: true, streaming: true, json_schema: true, vision: true, files: true, audio: true },
    rehearsal: false,
    input_rate_micro: 250_000,
    output_rate_micro: 1_250_000,
    cached_input_rate_micro: null,
    cache_write_rate_micro: null,
    cache_write_1h_rate_micro: null,
    tiers: [],
    price_version: "p",
    upstream: null,
    deprecation: null,
    ...fields,
  };
  return { ...model, tier: fields.tier ?? tierByPrice(model) };
}

export function requestOf(fields: Partial<ChatRequest> = {}): ChatRequest {
  return { model: "lab/small", messages: [{ role: "user", content: "hello" }], ...fields };
}

/** Both ways to call a provider, with defaults for the other arguments. */
export function callerOf(provider: Provider, model: Model = modelOf()) {
  const optionsOf = (signal?: AbortSignal, wait_ms = 20_000) => ({
    signal: signal ?? new AbortController().signal,
    deadline_ms: monotonicMs() + wait_ms,
  });
  const prepare = (request: ChatRequest, stream: boolean, max_output_tokens = 50) =>
    provider.prepare({ model, request, max_output_tokens, stream });
  return {
    complete: async (request = requestOf(), { signal, wait_ms }: { signal?: AbortSignal; wait_ms?: number } = {}) =>
      provider.complete(await prepare(request, false), optionsOf(signal, wait_ms)),
    stream: async (request = requestOf(), { signal, wait_ms }: { signal?: AbortSignal; wait_ms?: number } = {}) =>
      provider.stream(await prepare(request, true), optionsOf(signal, wait_ms)),
  };
}

/** Parts as a caller of chat completions gets them. */
export function chatText(parts: readonly AnswerPart[]): string {
  const writer = createChatWriter({ request_id: "r", include_usage: true });
  return parts.map((part) => writer.write(part)).join("");
}

/** Reads a stream to its end. */
export async function textOfStream({ parts }: Pick<ProviderStream, "parts">): Promise<string> {
  return chatText(await partsOfStream({ parts }));
}

export async function partsOfStream({ parts }: Pick<ProviderStream, "parts">): Promise<AnswerPart[]> {
  const read: AnswerPart[] = [];
  for (let step = await parts.next(); !step.done; step = await parts.next()) read.push(step.value);
  return read;
}

/** The chunks in a stream's text. */
// biome-ignore lint/suspicious/noExplicitAny: tests read any field
export function chunksOf(text: string): any[] {
  const payloads = text.split("\n\n").filter((event) => event.startsWith("data: {"));
  return payloads.map((event) => JSON.parse(event.slice(6)));
}

/** The text of the chunks in a stream. */
export function contentOf(text: string): string {
  return chunksOf(text)
    .map((chunk) => chunk.choices[0]?.delta.content ?? "")
    .join("");
}
