import { json, type Reply } from "./upstream.ts";

/** The fakes' vector for an input: numbers that 32 bits hold exactly. */
export function vectorOf(input: unknown, size = 3): number[] {
  const seed = typeof input === "string" ? input.length : (input as number[]).length;
  return Array.from({ length: size }, (_, at) => (seed + at) / 4);
}

/** Little-endian 32-bit numbers, as OpenAI writes them. */
export function base64Of(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString("base64");
}

/** OpenAI's POST /embeddings. `prompt_tokens: null` reports no usage. `ignores_format` always answers numbers. */
export function openAiVectors(prompt_tokens: number | null = 7, { ignores_format = false } = {}): Reply {
  return (response, request) => {
    const { input, dimensions, encoding_format } = request.body;
    const data = [...input.entries()].map(([index, each]) => {
      const vector = vectorOf(each, dimensions);
      const embedding = encoding_format === "base64" && !ignores_format ? base64Of(vector) : vector;
      return { object: "embedding", index, embedding };
    });
    const usage = prompt_tokens === null ? {} : { usage: { prompt_tokens, total_tokens: prompt_tokens } };
    return json({ object: "list", data, model: "fake", ...usage })(response, request);
  };
}

/** Google's batchEmbedContents, with its limit of 100 inputs. */
export function googleVectors(tokens_each: number | null): Reply {
  return (response, request) => {
    const { requests } = request.body;
    if (!/\/models\/[^:/]+:batchEmbedContents$/.test(request.path) || requests.length > 100) {
      const message = "at most 100 requests can be in one batch";
      return json({ error: { code: 400, message, status: "INVALID_ARGUMENT" } }, 400)(response, request);
    }
    const embeddings = requests.map(({ content, outputDimensionality }: GoogleRequest) => ({
      values: vectorOf(content.parts[0]?.text, outputDimensionality),
    }));
    const usageMetadata =
      tokens_each === null ? {} : { usageMetadata: { promptTokenCount: tokens_each * requests.length } };
    return json({ embeddings, ...usageMetadata })(response, request);
  };
}

interface GoogleRequest {
  content: { parts: { text: string }[] };
  outputDimensionality?: number;
}
