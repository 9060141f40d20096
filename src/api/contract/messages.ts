import type { ErrorShape } from "../../kernel/errors.ts";
import { json, jsonOrEvents } from "./common.ts";
import { limitSchema, modelNameSchema, routingSchema, toolNameSchema, withoutNulls } from "./completions.ts";
import { countedList, firstInvalid, mapSchema } from "./request-limits.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Anthropic's Messages API (contract 4): a third shape of the same model calls. */

const text = z.string();
const sourceSchema = z.looseObject({
  type: text,
  media_type: text.nullish(),
  data: text.nullish(),
  url: text.nullish(),
});
/** Short, because it is searched for names such as `web_search_tool_result`. */
const typeSchema = z.string().max(100);
const cacheHint = { cache_control: z.looseObject({ type: text }).nullish() };
const TEXT = z.looseObject({ type: z.literal("text"), text, ...cacheHint });
const IMAGE = z.looseObject({ type: z.literal("image"), source: sourceSchema, ...cacheHint });
const DOCUMENT = z.looseObject({
  type: z.literal("document"),
  source: sourceSchema,
  title: text.nullish(),
  ...cacheHint,
});
const resultPartSchema = z.union([
  z.discriminatedUnion("type", [TEXT, IMAGE, DOCUMENT]),
  z.looseObject({ type: typeSchema.refine((type) => !["text", "image", "document"].includes(type), { abort: true }) }),
]);
const TYPED = [
  TEXT,
  IMAGE,
  DOCUMENT,
  z.looseObject({
    type: z.literal("tool_use"),
    id: text.min(1).max(200),
    name: text.min(1).max(200),
    input: z.unknown(),
    ...cacheHint,
  }),
  z.looseObject({
    type: z.literal("tool_result"),
    tool_use_id: text,
    content: z.union([text, z.preprocess(firstInvalid(resultPartSchema), z.array(resultPartSchema))]).nullish(),
    is_error: z.boolean().nullish(),
    ...cacheHint,
  }),
  z.looseObject({ type: z.literal("thinking"), thinking: text, signature: text.nullish() }),
  z.looseObject({ type: z.literal("redacted_thinking"), data: text }),
] as const;
const KNOWN: readonly string[] = TYPED.map(({ shape }) => shape.type.value);
const blockSchema = z.union([
  z.discriminatedUnion("type", TYPED),
  z.looseObject({ type: typeSchema.refine((type) => !KNOWN.includes(type), { abort: true }) }),
]);
const countedBlocks = countedList(TEXT, "blocks", () => []);
const messageSchema = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([text, z.preprocess(firstInvalid(blockSchema), z.array(blockSchema))]),
});

const countedMessages = countedList(messageSchema, "messages and blocks", (message: { content?: unknown } | null) => {
  const blocks = Array.isArray(message?.content) ? (message.content as ({ content?: unknown } | null)[]) : [];
  return [blocks, ...blocks.map((block) => block?.content)];
});

const toolSchema = z.union([
  z.looseObject({
    type: z.literal("custom").nullish(),
    name: toolNameSchema,
    description: text.nullish(),
    input_schema: mapSchema,
    ...cacheHint,
  }),
  z.looseObject({
    type: typeSchema.refine((type) => type !== "custom", { abort: true }),
    name: text.nullish(),
    ...cacheHint,
  }),
]);
const formatSchema = z.looseObject({ type: z.literal("json_schema"), schema: mapSchema });

const FIELDS = {
  model: modelNameSchema,
  messages: z.preprocess(countedMessages, z.array(messageSchema).min(1)),
  system: z.union([text, z.preprocess(countedBlocks, z.array(TEXT))]).nullish(),
  tools: z
    .array(toolSchema)
    .max(128)
    .nullish()
    .openapi({
      description:
        "tools with an input_schema, and bash, text editor, memory and computer of Anthropic, which the caller executes; " +
        "tools that Anthropic executes are dropped",
    }),
  tool_choice: z
    .looseObject({
      type: z.enum(["auto", "any", "tool", "none"]),
      name: text.nullish(),
      disable_parallel_tool_use: z.boolean().nullish(),
    })
    .nullish(),
  thinking: z.looseObject({ type: text, budget_tokens: z.number().int().min(0).nullish() }).nullish(),
  output_config: z.looseObject({ effort: text.nullish(), format: formatSchema.nullish() }).nullish(),
};
const fieldsSchema = z
  .looseObject({
    ...FIELDS,
    max_tokens: z.number().int().min(1),
    temperature: z.number().min(0).max(1).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    stop_sequences: z.array(text).max(16).nullish(),
    stream: z.boolean().nullish(),
    metadata: mapSchema.nullish(),
  })
  .openapi("CreateMessage");
const countSchema = z.looseObject({ ...FIELDS, max_tokens: limitSchema }).openapi("CountTokens");

/** The fields that are validated here. */
export const MESSAGE_FIELDS: ReadonlySet<string> = new Set(Object.keys(fieldsSchema.shape));

type Fields = typeof fieldsSchema.shape;
/** A request after validation: without nulls on the first level. */
export type MessagesRequest = {
  [Name in Exclude<keyof Fields, "model" | "messages" | "max_tokens">]?: Exclude<z.infer<Fields[Name]>, null>;
} & { model: string; messages: z.infer<typeof messageSchema>[]; max_tokens?: number; [field: string]: unknown };
export type Block = z.infer<typeof blockSchema>;
export type ResultPart = z.infer<typeof resultPartSchema>;

const requested = (schema: z.ZodType<object>) =>
  schema.transform(withoutNulls) as unknown as z.ZodType<MessagesRequest>;

const usageSchema = z.looseObject({
  input_tokens: z
    .number()
    .int()
    .openapi({ description: "input that was neither read from a cache nor written to one" }),
  cache_read_input_tokens: z.number().int(),
  cache_creation_input_tokens: z.number().int(),
  output_tokens: z.number().int(),
  cost_tokens: z.number().int().optional().openapi({ description: "billed tokens" }),
});
export type MessageUsage = z.infer<typeof usageSchema>;

const answerBlockSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text }),
  z.looseObject({ type: z.literal("thinking"), thinking: text, signature: text }),
  z.looseObject({ type: z.literal("redacted_thinking"), data: text }),
  z.looseObject({ type: z.literal("tool_use"), id: text, name: text, input: z.unknown() }),
]);
export type AnswerBlock = z.infer<typeof answerBlockSchema>;
const stopSchema = z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]).nullable();
export const messageRecordSchema = z
  .looseObject({
    id: text,
    type: z.literal("message"),
    role: z.literal("assistant"),
    model: text,
    content: z.array(answerBlockSchema),
    stop_reason: stopSchema,
    stop_sequence: text.nullable(),
    usage: usageSchema,
    routing: routingSchema.optional(),
  })
  .openapi("Message");
export type MessageRecord = z.infer<typeof messageRecordSchema>;

const problemSchema = z.looseObject({ type: text, message: text, code: text, param: text.nullable() });
export const messagesErrorSchema = z
  .object({
    type: z.literal("error"),
    error: problemSchema,
    request_id: text,
  })
  .openapi("MessagesError");

/** The types of Anthropic's errors by our own. Its clients show the message of each. */
const TYPES: Readonly<Record<ErrorShape["type"], string>> = {
  invalid_request_error: "invalid_request_error",
  authentication_error: "authentication_error",
  payment_required: "billing_error",
  permission_error: "permission_error",
  not_found_error: "not_found_error",
  conflict_error: "invalid_request_error",
  rate_limit_error: "rate_limit_error",
  api_error: "api_error",
};
const BY_CODE: Readonly<Record<string, string>> = {
  overloaded: "overloaded_error",
  upstream_timeout: "timeout_error",
  body_too_large: "request_too_large",
};

/** Anthropic's SDK reads these details, and repeats the request without a thread. */
const NO_THREADS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };

/** An error in the shape of Anthropic's API, with our code and metadata beside it. Pure. */
export function anthropicError(
  shape: Pick<ErrorShape, "type" | "code" | "message" | "param" | "metadata">,
  request_id: string | null,
) {
  const { type, code, message, param, metadata } = shape;
  const error = { type: BY_CODE[code] ?? TYPES[type], message, code, param: param ?? null };
  const details = param === "thread" ? { details: NO_THREADS } : {};
  return {
    type: "error" as const,
    error: { ...error, ...(metadata ? { metadata } : {}), ...details },
    ...(request_id === null ? {} : { request_id }),
  };
}

const count = z.number().int();
const deltaSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text_delta"), text }),
  z.looseObject({ type: z.literal("thinking_delta"), thinking: text }),
  z.looseObject({ type: z.literal("signature_delta"), signature: text }),
  z.looseObject({ type: z.literal("input_json_delta"), partial_json: text }),
]);
const eventSchema = z
  .discriminatedUnion("type", [
    z.looseObject({ type: z.literal("message_start"), message: messageRecordSchema }),
    z.looseObject({ type: z.literal("content_block_start"), index: count, content_block: answerBlockSchema }),
    z.looseObject({ type: z.literal("content_block_delta"), index: count, delta: deltaSchema }),
    z.looseObject({ type: z.literal("content_block_stop"), index: count }),
    z.looseObject({
      type: z.literal("message_delta"),
      delta: z.looseObject({ stop_reason: stopSchema, stop_sequence: text.nullable() }),
      usage: usageSchema,
      routing: routingSchema.optional(),
    }),
    z.looseObject({ type: z.literal("message_stop") }),
    z.looseObject({ type: z.literal("error"), error: problemSchema }),
  ])
  .openapi("MessageStreamEvent", { description: "the data of one event; `type` is also the event's name" });

const failures = Object.fromEntries(
  [400, 401, 402, 403, 404, 409, 413, 415, 422, 429, 502, 503, 504].map((status) => [
    status,
    json(messagesErrorSchema, "the error in Anthropic's shape"),
  ]),
);

const routes = routesOf("Model calls in other shapes");

export const createMessageRoute = routes.post("/api/v1/messages", {
  operationId: "createMessage",
  summary: "Create a message (Anthropic's Messages API)",
  description:
    "Anthropic's Messages API over every model, so that `ANTHROPIC_BASE_URL={address}/api` works. Thinking comes back " +
    "with a signature and is sent back to the model that made it. Tools that Anthropic executes are dropped, and blocks " +
    "of tools that it executed in earlier turns are left out. Its tools that the caller executes (bash, text editor, " +
    "memory, computer) work with every model.",
  scope: "chat:write",
  body: requested(fieldsSchema),
  answers: {
    200: jsonOrEvents(messageRecordSchema, eventSchema, "the message"),
    ...failures,
  },
});

export const countTokensRoute = routes.post("/api/v1/messages/count_tokens", {
  operationId: "countMessageTokens",
  summary: "Estimate the input tokens of a message",
  description: "An estimate from the length of the prompt; it costs nothing and calls no provider.",
  scope: "chat:write",
  body: requested(countSchema),
  answers: { 200: json(z.object({ input_tokens: z.number().int() }), "the estimate"), ...failures },
});
