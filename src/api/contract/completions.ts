import type { ChatMessage, ChatRequest } from "./chat-completion.types.ts";
import { errorSchema, json, jsonOrEvents, streamErrorSchema, tokensSchema } from "./common.ts";
import { countedList, firstInvalid, mapSchema } from "./request-limits.ts";
import { routesOf } from "./routes.ts";
import { requiredActionSchema } from "./run-actions.ts";
import { z } from "./zod.ts";

export type * from "./chat-completion.types.ts";

/**
 * OpenAI's chat completions. Known fields are typed and checked here; models/request-fields.ts decides which fields a
 * model's provider receives (contract 2).
 */

const text = z.string();
const imageSchema = z.looseObject(
  { url: text, detail: text.nullish() },
  'an object such as {"url": "https://example.com/a.png"}',
);
const partSchema = z.union([
  z.discriminatedUnion("type", [
    z.looseObject({ type: z.literal("text"), text }),
    z.looseObject({ type: z.literal("image_url"), image_url: imageSchema }),
  ]),
  z.looseObject({ type: z.string().refine((type) => type !== "text" && type !== "image_url", { abort: true }) }),
]);
const partsSchema = z.preprocess(firstInvalid(partSchema), z.array(partSchema).min(1));
const contentSchema = z.union([text, partsSchema]);
const toolCallSchema = z.discriminatedUnion("type", [
  z.looseObject({
    id: text,
    type: z.literal("function"),
    function: z.looseObject({ name: text, arguments: text }),
  }),
  z.looseObject({
    id: text,
    type: z.literal("custom"),
    custom: z.looseObject({ name: text, input: text }),
  }),
]);

const messageSchema = z.discriminatedUnion("role", [
  z.looseObject({ role: z.literal("system"), content: contentSchema }),
  z.looseObject({ role: z.literal("developer"), content: contentSchema }),
  z.looseObject({ role: z.literal("user"), content: contentSchema }),
  z.looseObject({
    role: z.literal("assistant"),
    content: contentSchema.nullish(),
    tool_calls: z.preprocess(firstInvalid(toolCallSchema), z.array(toolCallSchema).nullish()),
  }),
  z.looseObject({ role: z.literal("tool"), content: contentSchema, tool_call_id: text }),
]);

const countedMessages = countedList(
  messageSchema,
  "messages and parts of messages",
  (message: Partial<ChatMessage> | null) => [message?.content, message?.tool_calls],
);

/** The name of a tool, as every provider accepts it. */
export const toolNameSchema = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 letters, digits, _ and -");
const functionToolSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({
    name: toolNameSchema,
    description: text.nullish(),
    parameters: mapSchema.nullish(),
    strict: z.boolean().nullish(),
  }),
});
const customToolSchema = z.looseObject({
  type: z.literal("custom"),
  custom: z.looseObject({
    name: toolNameSchema,
    description: text.nullish(),
    format: mapSchema.nullish(),
  }),
});
/** Tools that a provider executes itself are rejected by type, like other paid options. */
const toolSchema = z.union([
  functionToolSchema,
  customToolSchema,
  z.looseObject({ type: z.string().refine((type) => type !== "function" && type !== "custom", { abort: true }) }),
]);

const responseFormatSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
  z.looseObject({
    type: z.literal("json_schema"),
    json_schema: z.looseObject({
      name: text,
      description: text.nullish(),
      schema: mapSchema.nullish(),
      strict: z.boolean().nullish(),
    }),
  }),
]);

/** OpenAI's limit of choices. */
const MAX_CHOICES = 128;
export const limitSchema = z.number().int().min(1).nullish();

/** With the named model, as many as are tried for `auto`. */
const MAX_FALLBACKS = 3;
/** What answers a model call. */
export const modelNameSchema = z
  .string()
  .min(1)
  .max(200)
  .openapi({ description: "a model's id or UUID, `auto`, or `agent/{agent_id}`" });

const fieldsSchema = z
  .looseObject({
    model: modelNameSchema,
    models: z.array(z.string().min(1).max(200)).max(MAX_FALLBACKS).nullish().openapi({
      description: "models to fall back to, in order, when `model` is busy, fails, or does not take the request",
    }),
    messages: z.preprocess(countedMessages, z.array(messageSchema).min(1)),
    tools: z.array(toolSchema).max(128).nullish(),
    tool_choice: z
      .union([
        z.enum(["none", "auto", "required"]),
        z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: text }) }),
        z.looseObject({ type: z.literal("custom"), custom: z.looseObject({ name: text }) }),
      ])
      .nullish(),
    max_tokens: limitSchema.openapi({ description: "absent: the model's cap, lowered to what the balance affords" }),
    max_completion_tokens: limitSchema,
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    seed: z.number().int().nullish(),
    stop: z.union([text, z.array(text).max(16)]).nullish(),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    response_format: responseFormatSchema.nullish(),
    n: z
      .number()
      .int()
      .min(1)
      .max(MAX_CHOICES)
      .nullish()
      .openapi({ description: "each choice is held for and billed" }),
    user: text.nullish(),
  })
  .openapi("ChatCompletionRequest");
/** The fields that are validated here. Another API's request that carries one has passed no check of it. */
export const CHAT_FIELDS: ReadonlySet<string> = new Set(Object.keys(fieldsSchema.shape));

const chatRequestSchema = fieldsSchema.transform(withoutNulls) as unknown as z.ZodType<ChatRequest>;

/** Null counts as absent, because programs that send whole objects use it for unused fields. */
export function withoutNulls(request: object): object {
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== null));
}

const count = z.number().int().min(0);
export const usageSchema = z
  .object({
    input_tokens: count.openapi({ description: "raw tokens in the prompt" }),
    output_tokens: count.openapi({ description: "raw tokens generated, reasoning included" }),
    total_tokens: count.openapi({ description: "input_tokens + output_tokens" }),
    cost_tokens: tokensSchema,
    prompt_tokens: count,
    completion_tokens: count,
    prompt_tokens_details: z.object({
      cached_tokens: count.openapi({ description: "input that the provider read from its cache" }),
      cache_write_tokens: count.openapi({ description: "other input that the provider wrote to its cache" }),
      cache_write_1h_tokens: count.optional().openapi({ description: "the part of it that is kept for an hour" }),
    }),
    completion_tokens_details: z.object({ reasoning_tokens: count }),
    estimated: z.literal(true).optional().openapi({
      description: "the provider reported no usable counts; these are ceil(UTF-8 bytes / 4)",
    }),
  })
  .openapi("Usage");

export const routingSchema = z
  .object({
    candidates: z.array(text),
    chosen: text,
    reason: text,
    fallbacks: z.array(z.object({ model: text, reason: text, route: text.optional() })),
  })
  .openapi("Routing");

export const chatResponseSchema = z
  .looseObject({
    id: text,
    object: z.literal("chat.completion"),
    created: z.number().int(),
    model: text,
    choices: z.array(
      z.looseObject({
        index: z.number().int(),
        message: z.looseObject({
          role: z.literal("assistant"),
          content: text.nullable(),
          tool_calls: z.array(toolCallSchema).optional(),
        }),
        finish_reason: z.enum(["stop", "length", "tool_calls", "content_filter"]).nullable(),
      }),
    ),
    usage: usageSchema,
    routing: routingSchema.optional(),
  })
  .openapi("ChatCompletion");

const callDeltaSchema = z.looseObject({
  index: z.number().int().optional().openapi({ description: "which call of the answer this is a piece of" }),
  id: text.nullish(),
  type: text.nullish(),
  function: z.looseObject({ name: text.nullish(), arguments: text.nullish() }).nullish(),
  custom: z.looseObject({ name: text.nullish(), input: text.nullish() }).nullish(),
});
/** Of a chat with an agent that ends with `finish_reason: "requires_action"`. */
export const waitingFields = {
  required_actions: z
    .array(requiredActionSchema)
    .optional()
    .openapi({ description: "what the run of an agent's answer waits for" }),
  decide_url: text.optional().openapi({ description: "of a run that waits: the console's page of the decision" }),
  events_url: text
    .optional()
    .openapi({ description: "of a run that waits: its events, which go on after the decision" }),
};
const chunkSchema = z
  .looseObject({
    id: text,
    object: z.literal("chat.completion.chunk"),
    created: z.number().int(),
    model: text,
    choices: z.array(
      z.looseObject({
        index: z.number().int(),
        delta: z.looseObject({
          role: text.nullish(),
          content: text.nullish(),
          refusal: text.nullish(),
          reasoning_content: text.nullish(),
          tool_calls: z.array(callDeltaSchema).nullish(),
        }),
        finish_reason: text.nullish(),
      }),
    ),
    usage: usageSchema.nullish().openapi({
      description: "on the chunk with the finish reason, or with `include_usage` on a last one without choices",
    }),
    routing: routingSchema.optional(),
    run_id: text.optional().openapi({ description: "of an agent's answer: its run" }),
    thread_id: text.optional().openapi({ description: "of an agent's answer in a thread" }),
    ...waitingFields,
  })
  .openapi("ChatCompletionChunk");
/** An event of a streamed chat completion. */
export const chatEventSchema = z
  .union([chunkSchema, streamErrorSchema])
  .openapi("ChatCompletionStreamEvent", { description: "the data of one event; the last event's data is `[DONE]`" });

export const createCompletionRoute = routesOf("Chat completions").post("/api/v1/chat/completions", {
  summary: "Complete a conversation",
  description:
    "OpenAI's request and response, streaming included. With `stream: true` the answer is server-sent events: chunks, " +
    "then `data: [DONE]`. The chunk with the finish reason carries `usage`; with `include_usage` a last chunk with empty " +
    "`choices` does. Null counts as absent. A field that " +
    "is not sent to the model's provider is 400 `unsupported_parameter`; the guide for developers lists what is sent. A " +
    "caller that hangs up pays for the input, and for what was generated, once the request was sent to the provider.",
  scope: "chat:write",
  body: chatRequestSchema,
  answers: {
    200: jsonOrEvents(chatResponseSchema, chatEventSchema, "the completion"),
    502: json(errorSchema, "the model's provider failed; nothing was charged"),
    504: json(errorSchema, "the model did not answer in time; nothing was charged"),
  },
  fails: [402, 404, 409, 503],
});
