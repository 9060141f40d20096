import { errorSchema, failures, json, uuidSchema } from "./common.ts";
import { messagesErrorSchema } from "./messages.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

const rate = z.number().min(0);
const rateFields = {
  input_rate: rate.openapi({ description: "billed tokens per raw input token" }),
  cached_input_rate: rate.openapi({ description: "for input that the provider reads from its cache" }),
  cache_write_rate: rate.openapi({ description: "for input that the provider writes to its cache" }),
  cache_write_1h_rate: rate.openapi({ description: "for input that its cache keeps for an hour" }),
  output_rate: rate.openapi({ description: "billed tokens per raw output token" }),
};

export const modelSchema = z
  .object({
    id: z.string().openapi({ description: "the provider's model id", example: "purser/rehearsal" }),
    uuid: uuidSchema,
    object: z.literal("model"),
    kind: z.enum(["chat", "embedding", "auto", "agent"]).openapi({
      description:
        "`embedding`: for POST /api/v1/embeddings only; it has no output, so its output_rate and max_output_tokens are 0. `auto` chooses a model for each request; `agent`: one of the caller's agents, `agent/{id}`",
    }),
    created: z.number().int().openapi({ description: "Unix time; 0 for models" }),
    owned_by: z.string(),
    name: z.string(),
    context_window: z.number().int(),
    context_length: z.number().int().openapi({ description: "context_window, under the name that pickers read" }),
    max_output_tokens: z.number().int(),
    ...rateFields,
    pricing: z
      .object({
        prompt: z.string(),
        completion: z.string(),
        input_cache_read: z.string(),
        input_cache_write: z.string(),
      })
      .openapi({ description: "US dollars per token as decimal text; of `auto`: the dearest candidate's" }),
    tiers: z
      .array(z.object({ above_input_tokens: z.number().int(), ...rateFields }))
      .openapi({ description: "the rates of a whole request with more input than this; the highest that applies" }),
    cost_multiplier: rate.openapi({ description: "(3 × input_rate + output_rate) / 4" }),
    price_version: z.string().openapi({ description: "names the price list in force" }),
    tier: z
      .enum(["economy", "standard", "premium"])
      .openapi({ description: "what `auto` takes it for: by its price, unless the operator said" }),
    trial_eligible: z.boolean(),
    supports: z.object({
      tools: z.boolean(),
      streaming: z.boolean(),
      json_schema: z.boolean(),
      vision: z.boolean().openapi({ description: "accepts images: parts of type `image_url`" }),
      files: z.boolean().openapi({ description: "accepts files: parts of type `file`" }),
      audio: z.boolean().openapi({ description: "accepts audio: parts of type `input_audio`" }),
    }),
    supported_parameters: z
      .array(z.string())
      .openapi({ description: "the fields of chat completions that have an effect" }),
    deprecation: z
      .object({ retires_on: z.string().nullable(), replacement: z.string().nullable() })
      .nullable()
      .openapi({ description: "the provider ends this model: the day, and the model that it names instead" }),
  })
  .openapi("Model");
export type ModelRecord = z.infer<typeof modelSchema>;

const listSchema = z.object({ object: z.literal("list"), data: z.array(modelSchema) });
const anthropicModelSchema = z
  .object({ type: z.literal("model"), id: z.string(), display_name: z.string(), created_at: z.string() })
  .openapi("AnthropicModel");
const anthropicListSchema = z
  .object({
    data: z.array(anthropicModelSchema),
    has_more: z.literal(false),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .openapi("AnthropicModelList");
/** Callers without the header get the first shape, so only that one is the type of the answer. */
const eitherListSchema = z.union([listSchema, anthropicListSchema]) as unknown as typeof listSchema;
const eitherModelSchema = z.union([modelSchema, anthropicModelSchema]) as unknown as typeof modelSchema;
/** Errors have Anthropic's shape too if the header `anthropic-version` is sent. */
const eitherFailures = (...statuses: (403 | 404)[]) =>
  Object.fromEntries(
    Object.entries(failures(...statuses)).map(([status, { description }]) => [
      status,
      json(z.union([errorSchema, messagesErrorSchema]), description),
    ]),
  );

/** Anthropic's clients ask for pages. The list has one. */
const unread = z.string().optional().openapi({ description: "accepted and not read: the list is whole" });

const routes = routesOf("Models");

export const listModelsRoute = routes.get("/api/v1/models", {
  summary: "List the models on offer",
  scope: "any",
  query: z.object({ limit: unread, after_id: unread, before_id: unread }),
  answers: {
    200: json(
      eitherListSchema,
      "the chat models, the cheapest first, then `auto`, the caller's agents and the embedding models; with the header `anthropic-version` in Anthropic's shape",
    ),
    ...eitherFailures(403),
  },
});

export const getModelRoute = routes.get("/api/v1/models/{model}", {
  summary: "Get one model by its id or UUID",
  scope: "any",
  params: z.object({ model: z.string().openapi({ example: "purser/rehearsal" }) }),
  answers: {
    200: json(eitherModelSchema, "the model; with the header `anthropic-version` in Anthropic's shape"),
    ...eitherFailures(403, 404),
  },
});
