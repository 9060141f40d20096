import { json, tokensSchema } from "./common.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** OpenAI's embeddings (contract 4.14). */

/** OpenAI's limit of inputs in one request. */
export const MAX_INPUTS = 2_048;
/** With an Idempotency-Key, so that the kept answer is at most as large as other answers: 33 MB. */
export const MAX_KEPT_INPUTS = 512;
/** Far above any model's. */
const MAX_DIMENSIONS = 65_536;

/** One text, or its tokens as numbers of the model's own tokenizer. */
export type EmbeddingInput = string | number[];

const INPUT = "a text, a list of texts, a list of token numbers, or a list of such lists";
const isToken = (value: unknown) => typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

/** What the input must be instead, and where; null: it is valid. */
function explainFault(input: unknown): { message: string; path: number[] } | null {
  const fault = (message: string, path: number[] = []) => ({ message, path });
  if (typeof input === "string") return input === "" ? fault("a text that is not empty") : null;
  if (!Array.isArray(input) || input.length === 0) return fault(`${INPUT}, not empty`);
  const of_tokens = typeof input[0] === "number";
  if (!of_tokens && input.length > MAX_INPUTS) return fault(`a list of at most ${MAX_INPUTS} inputs`);
  const kind = typeof input[0];
  for (const [index, each] of input.entries()) {
    if (typeof each !== kind) return fault(`of the same kind as the first: ${INPUT}`, [index]);
    if (of_tokens) {
      if (!isToken(each)) return fault("a token number of 0 or more", [index]);
    } else if (typeof each === "string") {
      if (each === "") return fault("a text that is not empty", [index]);
    } else if (!Array.isArray(each) || each.length === 0 || !each.every(isToken)) {
      return fault("a text or a list of token numbers, not empty", [index]);
    }
  }
  return null;
}

/** Reports the first fault. A union of schemas would try each alternative for 200,000 numbers. */
function checkInput(input: unknown, ctx: z.RefinementCtx): void {
  const fault = explainFault(input);
  if (fault !== null) ctx.addIssue({ code: "custom", message: fault.message, path: fault.path });
}

const fieldsSchema = z
  .looseObject({
    model: z.string().min(1).max(200).openapi({ description: "the id or UUID of a model of kind `embedding`" }),
    input: z
      .union([z.string(), z.array(z.unknown())])
      .superRefine(checkInput)
      .openapi({
        anyOf: [
          { type: "string" },
          { type: "array", items: { type: "string" }, maxItems: MAX_INPUTS },
          { type: "array", items: { type: "integer" } },
          { type: "array", items: { type: "array", items: { type: "integer" } }, maxItems: MAX_INPUTS },
        ],
        description: `${INPUT}. Models of Google take texts only`,
      }),
    dimensions: z.number().int().min(1).max(MAX_DIMENSIONS).nullish().openapi({
      description: "the length of the vectors, where the model can shorten them",
    }),
    encoding_format: z.enum(["float", "base64"]).nullish().openapi({
      description: "`float` (the default), or `base64` of little-endian 32-bit numbers",
    }),
    user: z.string().nullish(),
  })
  .openapi("CreateEmbeddings");

/** A request after validation. */
export interface EmbeddingRequest {
  model: string;
  input: string | EmbeddingInput[] | number[];
  dimensions?: number | null | undefined;
  encoding_format?: "float" | "base64" | null | undefined;
  user?: string | null | undefined;
  [field: string]: unknown;
}

/** The inputs of a request, in order: one vector belongs to each. */
export function getInputs({ input }: Pick<EmbeddingRequest, "input">): readonly EmbeddingInput[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as number[]] : (input as EmbeddingInput[]);
}

const usageSchema = z
  .object({
    prompt_tokens: z.number().int(),
    total_tokens: z.number().int(),
    input_tokens: z.number().int(),
    output_tokens: z.literal(0),
    cost_tokens: tokensSchema,
    estimated: z.literal(true).optional().openapi({ description: "the provider reported no count" }),
  })
  .openapi("EmbeddingUsage");
export type EmbeddingUsage = z.infer<typeof usageSchema>;

const embeddingsSchema = z
  .object({
    object: z.literal("list"),
    data: z.array(
      z.object({
        object: z.literal("embedding"),
        index: z.number().int(),
        embedding: z
          .union([z.array(z.number()), z.string()])
          .openapi({ description: "a list of numbers; with `encoding_format: base64` a text" }),
      }),
    ),
    model: z.string(),
    usage: usageSchema,
  })
  .openapi("Embeddings");

export const createEmbeddingsRoute = routesOf("Embeddings").post("/api/v1/embeddings", {
  operationId: "createEmbeddings",
  summary: "Create embeddings (OpenAI's shape)",
  description:
    "A vector for each input, by a model of kind `embedding` (`GET /api/v1/models`). Only the input is billed: " +
    `cost_tokens = ceil(input_tokens × input_rate). At most ${MAX_INPUTS} inputs, and ${MAX_KEPT_INPUTS} with an Idempotency-Key; each must fit into the model's context.`,
  scope: "chat:write",
  body: fieldsSchema,
  answers: {
    200: json(embeddingsSchema, "the vectors, in the order of the inputs"),
    502: json(z.unknown(), "the model's provider failed; nothing was charged"),
    504: json(z.unknown(), "the model did not answer in time; nothing was charged"),
  },
  fails: [402, 404, 409, 503],
});
