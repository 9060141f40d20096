/** Requests and answers of chat completions, whole and streamed: the form that all model calls have inside. */

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

/** Gemini's thought signature in the shape of its OpenAI-compatible API. `model` made it, by `route` if it has routes. */
export interface ExtraContent {
  google?:
    | { thought_signature?: string | undefined; model?: string | undefined; route?: string | undefined }
    | undefined;
  [provider: string]: unknown;
}

/**
 * A piece of a model's reasoning in OpenRouter's shape. `signature` and `data` are opaque. A piece returns only to a
 * provider of the same `format` and, where they are given, only to that `model` by that `route`; otherwise it is dropped.
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
  /** The route that the model was called by, if it has several. */
  route?: string | undefined;
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
  /** Of an answer: the route that its model was called by, if it has several. Its reasoning goes back by it only. */
  route?: string | undefined;
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

/** contract 4.4: four fields, and OpenAI's own names beside them. */
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
  /** Models tried before, and why each was left. `route`: the way to the model, if it has several. */
  fallbacks: { model: string; reason: string; route?: string }[];
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
