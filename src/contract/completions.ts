import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import { failures, json, jsonBody, tokensSchema } from "./common.ts";

/**
 * OpenAI's chat completions. Known fields are typed and checked here; models/request-fields.ts decides which fields a
 * model's provider receives (contract 2).
 */

/** A call of a function. `extra_content` is its provider's own data and must be sent back unchanged. */
export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
  extra_content?: ExtraContent | undefined;
}

/** A call of a `custom` tool, whose input is any text. */
export interface CustomToolCall {
  id: string;
  type: "custom";
  custom: { name: string; input: string };
  extra_content?: ExtraContent | undefined;
}

export type AnyToolCall = ToolCall | CustomToolCall;

/** Gemini's thought signature in the shape of its OpenAI-compatible API. `model` is the model that made it. */
export interface ExtraContent {
  google?: { thought_signature?: string | undefined; model?: string | undefined } | undefined;
  [provider: string]: unknown;
}

/**
 * A piece of a model's reasoning in OpenRouter's shape. `signature` and `data` are opaque. A piece returns only to a
 * provider of the same `format` and, where `model` is given, only to that model; otherwise it is dropped.
 */
export interface ReasoningDetail {
  type: "reasoning.summary" | "reasoning.text" | "reasoning.encrypted";
  summary?: string | undefined;
  text?: string | undefined;
  signature?: string | null | undefined;
  data?: string | undefined;
  /** The provider's id of the reasoning item that the piece belongs to. */
  id?: string | null | undefined;
  format?: ReasoningFormat | (string & {}) | null | undefined;
  /** The position of the piece among the blocks of its answer: reasoning, text and calls. */
  index?: number | undefined;
  /** The id of the model that made it. */
  model?: string | undefined;
  [field: string]: unknown;
}

export type ReasoningFormat = "openai-responses-v1" | "anthropic-claude-v1" | "google-gemini-v1";

/** A hint that the prompt up to here is worth caching. Dropped where the provider has no such hint. */
export interface CacheControl {
  type: "ephemeral";
  ttl?: "5m" | "1h" | undefined;
}

/** A part of a message: text, an image, a file, audio, or a provider's own type. */
export interface ContentPart {
  type: string;
  text?: string | undefined;
  image_url?: { url: string; detail?: string | undefined } | undefined;
  file?: { file_data?: string | undefined; file_id?: string | undefined; filename?: string | undefined } | undefined;
  input_audio?: { data: string; format: string } | undefined;
  cache_control?: CacheControl | undefined;
  [field: string]: unknown;
}

/** `content` of a tool message may hold text and images. */
export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  content?: string | ContentPart[] | null | undefined;
  name?: string | undefined;
  tool_calls?: AnyToolCall[] | null | undefined;
  tool_call_id?: string | undefined;
  cache_control?: CacheControl | undefined;
  /** Of an answer: its reasoning. */
  reasoning_details?: ReasoningDetail[] | null | undefined;
  /** Of an answer: the id of the model that made it. Its reasoning is dropped before another model gets it. */
  model?: string | undefined;
  [field: string]: unknown;
}

export interface FunctionTool {
  type: "function";
  function: {
    name: string;
    description?: string | null | undefined;
    parameters?: Record<string, unknown> | null | undefined;
    strict?: boolean | null | undefined;
  };
  cache_control?: CacheControl | undefined;
}

/** A tool whose input is text, optionally in a grammar. Only some providers sell it. */
export interface CustomTool {
  type: "custom";
  custom: {
    name: string;
    description?: string | null | undefined;
    format?: Record<string, unknown> | null | undefined;
  };
}

export type Tool = FunctionTool | CustomTool;

export type ToolChoice =
  | "none"
  | "auto"
  | "required"
  | { type: "function"; function: { name: string } }
  | { type: "custom"; custom: { name: string } };

export type ResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | {
      type: "json_schema";
      json_schema: {
        name: string;
        description?: string | null | undefined;
        schema?: Record<string, unknown> | null | undefined;
        strict?: boolean | null | undefined;
      };
    };

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  tools?: Tool[] | undefined;
  tool_choice?: ToolChoice | undefined;
  max_tokens?: number | null | undefined;
  max_completion_tokens?: number | null | undefined;
  temperature?: number | null | undefined;
  top_p?: number | null | undefined;
  presence_penalty?: number | null | undefined;
  frequency_penalty?: number | null | undefined;
  seed?: number | null | undefined;
  stop?: string | string[] | null | undefined;
  stream?: boolean | null | undefined;
  stream_options?: { include_usage?: boolean | null | undefined } | null | undefined;
  response_format?: ResponseFormat | undefined;
  n?: number | null | undefined;
  user?: string | undefined;
  /** Fallbacks for `model`, in order. */
  models?: string[] | null | undefined;
  [field: string]: unknown;
}

/** seed, Usage object, and OpenAI's own names beside it. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  cost_tokens: number;
  prompt_tokens: number;
  completion_tokens: number;
  /** Disjoint parts of the prompt; `cache_write_1h_tokens`, a part of the written ones, only where it is above 0. */
  prompt_tokens_details: { cached_tokens: number; cache_write_tokens: number; cache_write_1h_tokens?: number };
  completion_tokens_details: { reasoning_tokens: number };
  /** Only when true: the provider reported no usable counts, these are ceil(UTF-8 bytes / 4). */
  estimated?: true;
}

/** How `auto` came to its model. */
export interface Routing {
  candidates: string[];
  chosen: string;
  reason: string;
  /** Models tried before, and why each was left. */
  fallbacks: { model: string; reason: string }[];
}

export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";

interface ChatChoice {
  index: number;
  message: {
    role: "assistant";
    content: string | null;
    reasoning_content?: string;
    reasoning_details?: ReasoningDetail[];
    tool_calls?: AnyToolCall[];
    [field: string]: unknown;
  };
  finish_reason: FinishReason | null;
  [field: string]: unknown;
}

/**
 * What one chunk adds to an answer. `reasoning_content` has the readable reasoning as it is generated;
 * `reasoning_details` has each finished piece once, whole, with its opaque data.
 */
export interface ChatDelta {
  role?: "assistant";
  content?: string | null;
  refusal?: string | null;
  reasoning_content?: string;
  reasoning_details?: ReasoningDetail[];
  tool_calls?: ToolCallDelta[];
  [field: string]: unknown;
}

/** A piece of a tool call: `id` and the name come first, the pieces of its text after it. */
export interface ToolCallDelta {
  /** The position of the call. Some providers omit it for whole calls. */
  index?: number;
  id?: string;
  type?: "function" | "custom";
  function?: { name?: string; arguments?: string };
  custom?: { name?: string; input?: string };
  extra_content?: ExtraContent;
}

/** One event of a streamed answer. The last one has no choices and has `usage`. */
export interface ChatChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: { index: number; delta: ChatDelta; finish_reason: FinishReason | null }[];
  usage?: Usage;
  routing?: Routing;
}

export interface ChatResponse {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: ChatChoice[];
  usage?: Usage;
  routing?: Routing;
  [field: string]: unknown;
}

const text = z.string();
const partSchema = z.union([
  z.discriminatedUnion("type", [
    z.looseObject({ type: z.literal("text"), text }),
    z.looseObject({ type: z.literal("image_url"), image_url: z.looseObject({ url: text, detail: text.optional() }) }),
  ]),
  z.looseObject({ type: z.string().refine((type) => type !== "text" && type !== "image_url", { abort: true }) }),
]);
/** Lists up to this length are validated in full. */
const SHORT_LIST = 1_000;

/** Cuts a long list after its first error. All errors of 20,000 items take 0.1 s, and only one is reported. */
function upToFault(item: z.ZodType): (list: unknown) => unknown {
  return (list) => {
    if (!Array.isArray(list) || list.length <= SHORT_LIST) return list;
    const fault = list.findIndex((each) => !item.safeParse(each).success);
    return fault === -1 ? list : list.slice(0, fault + 1);
  };
}

/** An object whose keys are not validated. */
const mapSchema = z
  .custom<Record<string, unknown>>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "an object",
  )
  .openapi({ type: "object", additionalProperties: {} });

const partsSchema = z.preprocess(upToFault(partSchema), z.array(partSchema).min(1));
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
    tool_calls: z.preprocess(upToFault(toolCallSchema), z.array(toolCallSchema).nullish()),
  }),
  z.looseObject({ role: z.literal("tool"), content: contentSchema, tool_call_id: text }),
]);

/** Messages, their parts and tool calls together: far more than any model's context holds. */
const MAX_PIECES = 20_000;

/** Counts before anything is looked at: to tell what is wrong with each of a million pieces takes seconds. */
function countedMessages(value: unknown, ctx: z.RefinementCtx): unknown {
  const sizeOf = (list: unknown) => (Array.isArray(list) ? list.length : 0);
  let pieces = sizeOf(value);
  if (pieces <= MAX_PIECES) {
    for (const message of (Array.isArray(value) ? value : []) as (Partial<ChatMessage> | null)[]) {
      pieces += sizeOf(message?.content) + sizeOf(message?.tool_calls);
    }
  }
  if (pieces <= MAX_PIECES) return upToFault(messageSchema)(value);
  ctx.addIssue({ code: "custom", message: `a list of at most ${MAX_PIECES} messages and parts of messages` });
  return z.NEVER;
}

/** The most fields of one object of a request. No provider has half as many. */
const MAX_FIELDS = 200;
/** Maps whose keys the caller chooses. */
const MAPS = new Set(["metadata", "client_metadata", "logit_bias", "parameters", "schema"]);

/** Rejects objects with too many fields before validation, because 90,000 fields take 0.2 s. */
function countedFields(value: unknown, ctx: z.RefinementCtx): unknown {
  const path = wideObject(value);
  if (path === null) return value;
  const message = `an object of at most ${MAX_FIELDS} fields`;
  // The whole request has no param, so name a required field.
  ctx.addIssue({ code: "custom", message, path: path.length > 0 ? path : ["messages"] });
  return z.NEVER;
}

/** The path of an object with too many fields; null when there is none. */
function wideObject(value: unknown): (string | number)[] | null {
  if (value === null || typeof value !== "object") return null;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  if (Array.isArray(keys) && keys.length > MAX_FIELDS) return [];
  for (const key of keys) {
    const path = MAPS.has(String(key)) ? null : wideObject((value as Record<string | number, unknown>)[key]);
    if (path !== null) return [key, ...path];
  }
  return null;
}

const functionToolSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({
    name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 letters, digits, _ and -"),
    description: text.nullish(),
    parameters: mapSchema.nullish(),
    strict: z.boolean().nullish(),
  }),
});
const customToolSchema = z.looseObject({
  type: z.literal("custom"),
  custom: z.looseObject({
    name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 letters, digits, _ and -"),
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

const limitSchema = z.number().int().min(1).nullish();

/** With the named model, as many as are tried for `auto`. */
const MAX_FALLBACKS = 3;

const fieldsSchema = z
  .looseObject({
    model: z.string().min(1).max(200).openapi({ description: "a model's id or UUID, `auto`, or `agent/{agent_id}`" }),
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
    stop: z.union([text, z.array(text).min(1).max(16)]).nullish(),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    response_format: responseFormatSchema.nullish(),
    n: z.number().int().nullish(),
    user: text.nullish(),
  })
  .openapi("ChatCompletionRequest");
const chatRequestSchema = z
  .preprocess(countedFields, fieldsSchema)
  .transform(withoutNulls) as unknown as z.ZodType<ChatRequest>;

/** Null counts as absent, because programs that send whole objects use it for unused fields. */
function withoutNulls(request: object): object {
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== null));
}

const count = z.number().int().min(0);
const usageSchema = z
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

const routingSchema = z
  .object({
    candidates: z.array(text),
    chosen: text,
    reason: text,
    fallbacks: z.array(z.object({ model: text, reason: text })),
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

export const createCompletionRoute = createRoute({
  method: "post",
  path: "/api/v1/chat/completions",
  tags: ["Chat completions"],
  summary: "Complete a conversation",
  description:
    "OpenAI's request and response, streaming included. With `stream: true` the answer is server-sent events: chunks, " +
    "one last chunk with empty `choices` that carries `usage`, then `data: [DONE]`. Null counts as absent. A field that " +
    "is not sent to the model's provider is 400 `unsupported_parameter`; the guide for developers lists what is sent. A " +
    "caller that hangs up pays for the input, and for what was generated, once the request was sent to the provider.",
  ...needs("chat:write"),
  request: jsonBody(chatRequestSchema),
  responses: {
    200: {
      description: "the completion; with `stream: true`, its events",
      content: {
        "application/json": { schema: chatResponseSchema },
        "text/event-stream": { schema: z.string() },
      },
    },
    ...failures(400, 402, 403, 503),
    502: json(z.unknown(), "the model's provider failed; nothing was charged"),
    504: json(z.unknown(), "the model did not answer in time; nothing was charged"),
  },
});
