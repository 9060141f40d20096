import { StringDecoder } from "node:string_decoder";
import { setImmediate } from "node:timers/promises";
import type { EmbeddingInput } from "../../api/contract/embeddings.ts";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { CallOptions, Embed, EmbeddingCall, Model, Vectors } from "./models.types.ts";
import { SILENCE_MS, send } from "./provider-answers.ts";
import type { ProviderAnswer } from "./provider-connections.ts";
import { collectSecrets, failureOfThrown } from "./provider-errors.ts";
import { createVectorReader, type ReadAnswer, vectorText } from "./vectors.ts";

/** 2,048 inputs, each with 3,072 numbers of 25 characters. */
const MAX_ANSWER_BYTES = 160_000_000;
const VECTORS_AT_ONCE = 16;
/** Google's limit of inputs in one request. */
const GOOGLE_INPUTS = 100;
const GOOGLE_ADDRESS = "https://generativelanguage.googleapis.com/v1beta";

interface Connection {
  base_url: string;
  /** null: no key is sent. */
  api_key: string | null;
}

/** How one API is asked for vectors. */
interface Shape {
  path(model: Model): string;
  headers(api_key: string | null): Record<string, string>;
  body(call: EmbeddingCall, inputs: readonly EmbeddingInput[]): object;
  /** The vectors in the order of the inputs, as `vectorText` takes them, and the count that the provider reports. */
  read(value: unknown): { vectors: unknown[]; input_tokens: unknown };
  /** The most inputs of one request. */
  most_inputs: number;
}

/** POST /embeddings, of OpenAI and of servers with its API. */
export function openAiEmbeddings(connection: Connection): Embed {
  return createEmbed(connection, OPENAI);
}

/** Google's batchEmbedContents. */
export function googleEmbeddings({ base_url, api_key }: { base_url: string | null; api_key: string | null }): Embed {
  return createEmbed({ base_url: base_url ?? GOOGLE_ADDRESS, api_key }, GOOGLE);
}

interface Listed {
  data?: { index?: number; embedding?: unknown }[];
  usage?: { prompt_tokens?: unknown };
}
const OPENAI: Shape = {
  path: () => "/embeddings",
  headers: (api_key) => (api_key === null ? {} : { authorization: `Bearer ${api_key}` }),
  body: ({ model, fields }, inputs) => ({ ...fields, model: model.provider_model, input: inputs }),
  read(value) {
    const { data, usage } = (value ?? {}) as Listed;
    const vectors: unknown[] = [];
    for (const [at, { index, embedding }] of (data ?? []).entries()) vectors[index ?? at] = embedding;
    return { vectors, input_tokens: usage?.prompt_tokens };
  },
  most_inputs: Number.POSITIVE_INFINITY,
};

interface Batch {
  embeddings?: { values?: unknown }[];
  usageMetadata?: { promptTokenCount?: unknown };
}
const GOOGLE: Shape = {
  path: ({ provider_model }) => `/models/${encodeURIComponent(provider_model)}:batchEmbedContents`,
  headers: (api_key) => (api_key === null ? {} : { "x-goog-api-key": api_key }),
  body({ model, fields }, inputs) {
    const { dimensions } = fields;
    const shortened = dimensions === undefined ? {} : { outputDimensionality: dimensions };
    return {
      requests: inputs.map((text) => ({
        model: `models/${model.provider_model}`,
        ...shortened,
        content: { role: "user", parts: [{ text }] },
      })),
    };
  },
  read(value) {
    const { embeddings, usageMetadata } = (value ?? {}) as Batch;
    return {
      vectors: (embeddings ?? []).map(({ values }) => values),
      input_tokens: usageMetadata?.promptTokenCount,
    };
  },
  most_inputs: GOOGLE_INPUTS,
};

/**
 * Calls a provider for vectors, in as many requests as its limit asks for, one after the other. The failure of one is
 * the failure of the call.
 */
function createEmbed({ base_url, api_key }: Connection, shape: Shape): Embed {
  const { origin, pathname } = new URL(base_url);
  const base_path = pathname.replace(/\/+$/, "");
  const secrets = collectSecrets({ base_url, api_key });
  const headers = {
    "content-type": "application/json",
    accept: "application/json",
    ...shape.headers(api_key),
  };

  async function ask(call: EmbeddingCall, inputs: readonly EmbeddingInput[], options: CallOptions): Promise<Vectors> {
    const { signal, deadline_ms } = options;
    const url = new URL(base_path + shape.path(call.model), origin);
    const body = Buffer.from(JSON.stringify(shape.body(call, inputs)));
    const answer = await send(
      { model: call.model, stream: false },
      { url, headers, body, silence_ms: SILENCE_MS, main: "input" },
      { signal, deadline_ms, secrets },
    );
    const read = await readAnswer(answer, options);
    const { vectors, input_tokens } = shape.read(read.value);
    const texts = await vectorTexts(vectors, read, { count: inputs.length, format: call.encoding_format });
    return { vectors: texts, input_tokens: typeof input_tokens === "number" ? input_tokens : null };
  }

  return async (call, options) => {
    const all: Vectors = { vectors: [], input_tokens: 0 };
    const step = Math.min(shape.most_inputs, call.inputs.length);
    for (let from = 0; from < call.inputs.length; from += step) {
      try {
        const part = await ask(call, call.inputs.slice(from, from + step), options);
        for (const vector of part.vectors) all.vectors.push(vector);
        const is_known = all.input_tokens !== null && part.input_tokens !== null;
        all.input_tokens = is_known ? (all.input_tokens ?? 0) + (part.input_tokens ?? 0) : null;
      } catch (thrown) {
        throw failureOfThrown(thrown, call.model, options.signal);
      }
    }
    return all;
  };
}

async function readAnswer(answer: ProviderAnswer, options: CallOptions): Promise<ReadAnswer> {
  try {
    return await readVectors(answer, options);
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

async function readVectors({ read }: ProviderAnswer, { deadline_ms }: CallOptions): Promise<ReadAnswer> {
  const decoder = new StringDecoder("utf8");
  const reader = createVectorReader();
  let bytes = 0;
  for (let chunk = await read(); chunk !== null; chunk = await read()) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error("an answer without end");
    if (monotonicMs() > deadline_ms) throw errors.upstreamTimeout();
    reader.push(decoder.write(chunk));
  }
  return reader.end();
}

/** The vectors as JSON text. Throws unless there are `count`, all of one size. */
async function vectorTexts(
  vectors: readonly unknown[],
  read: ReadAnswer,
  { count, format }: { count: number; format: EmbeddingCall["encoding_format"] },
): Promise<string[]> {
  if (vectors.length !== count) throw new Error("an answer with another number of vectors");
  const texts: string[] = [];
  let common = 0;
  for (const given of vectors) {
    // A large answer has six million numbers, so other work runs in between.
    if (texts.length % VECTORS_AT_ONCE === 0) await setImmediate();
    const [text, size] = vectorText(given, read, format);
    if (size === 0 || size !== (common || size)) throw new Error("vectors of different sizes");
    common = size;
    texts.push(text);
  }
  return texts;
}
