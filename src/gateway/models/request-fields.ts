import { isDeepStrictEqual } from "node:util";
import type {
  AnyToolCall,
  ChatMessage,
  ChatRequest,
  ContentPart,
  ResponseFormat,
  Tool,
  ToolChoice,
} from "../../api/contract/completions.ts";
import type { EmbeddingRequest } from "../../api/contract/embeddings.ts";
import { errors } from "../../kernel/errors.ts";
import { editDistance } from "../../kernel/nearest.ts";
import { parseDataUrl, usualDataUrl } from "../../platform/lib/media-type.ts";
import { gatewayErrors } from "./errors.ts";
import type { Model } from "./models.types.ts";
import { traitsOf } from "./providers.ts";
import { callFor, reasoningFor } from "./reasoning.ts";

/**
 * The request fields that reach a provider. A field on no list is rejected: the provider could bill it at another rate
 * than the model's. Pure. docs/guides/developers.md shows these lists; a test compares them.
 */

/** Fields that the service itself reads, for every kind of provider. */
export const SERVED_FIELDS = [
  "model",
  "messages",
  "tools",
  "tool_choice",
  "response_format",
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "presence_penalty",
  "frequency_penalty",
  "seed",
  "stop",
  "stream",
  "stream_options",
] as const;

/** Hints that change no price. They are dropped if the provider does not support them. */
export const ADVISORY_FIELDS = [
  "user",
  "metadata",
  "client_metadata",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "cache_control",
  "context_management",
  "defer_loading",
  "include",
  "reasoning",
  "reasoning_effort",
  "thinking",
  "output_config",
  "verbosity",
  "presence_penalty",
  "frequency_penalty",
] as const;

/** Values that request only the default. */
export const DEFAULT_VALUES: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  best_of: [1],
  store: [false],
  service_tier: ["auto", "default"],
  modalities: [["text"]],
  parallel_tool_calls: [true],
  logprobs: [false],
  top_logprobs: [0],
  logit_bias: [{}],
  temperature: [1],
  top_p: [1],
  presence_penalty: [0],
  frequency_penalty: [0],
  stop: [[], ""],
  min_tokens: [0],
};

/** The fields of an embeddings request that the service reads. */
export const EMBEDDING_FIELDS = ["model", "input", "dimensions", "encoding_format", "user"] as const;

/** Fields without effect unless a request has tools. Many providers reject them then, and an empty list of tools. */
const OF_TOOLS: readonly string[] = ["tools", "tool_choice", "parallel_tool_calls"];

const served = new Set<string>(SERVED_FIELDS);
const advisory = new Set<string>(ADVISORY_FIELDS);

const MESSAGE_FIELDS = new Set(["role", "content", "name", "tool_calls", "tool_call_id", "refusal"]);
const CALL_FIELDS = new Set(["id", "type", "function", "custom", "extra_content"]);
const CALLED_FIELDS = new Set(["name", "arguments", "input"]);
const TOOL_FIELDS = new Set(["type", "function", "custom"]);
const FUNCTION_FIELDS = new Set(["name", "description", "parameters", "strict"]);
const CUSTOM_FIELDS = new Set(["name", "description", "format"]);
const CHOICE_FIELDS = new Set(["type", "function", "custom"]);
/** Where a provider takes `cache_control`, it is on tools, messages and their parts. */
const withCacheHint = (fields: ReadonlySet<string>) => new Set([...fields, "cache_control"]);
const CHOSEN_FIELDS = new Set(["name"]);
const FORMAT_FIELDS = new Set(["type"]);
const SCHEMA_FORMAT_FIELDS = new Set(["type", "json_schema"]);
const SCHEMA_FIELDS = new Set(["name", "description", "schema", "strict"]);
const STREAM_FIELDS = new Set(["include_usage", "include_obfuscation"]);
/** The types of content parts, and the fields of each. */
const PART_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  text: new Set(["type", "text"]),
  refusal: new Set(["type", "refusal"]),
  image_url: new Set(["type", "image_url"]),
  file: new Set(["type", "file"]),
  input_audio: new Set(["type", "input_audio"]),
};
const MEDIA_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  image_url: new Set(["url", "detail"]),
  file: new Set(["file_id", "file_data", "filename"]),
  input_audio: new Set(["data", "format"]),
};
const FILE_ID = /^[\w.-]{1,200}$/;
const BASE64 = /^[A-Za-z0-9+/=_\s-]*$/;
const INLINE_START_CHARS = 200;
const AUDIO_FORMATS: ReadonlyMap<string, string> = new Map([
  ...["wav", "x-wav", "wave", "vnd.wave"].map((format) => [format, "wav"] as const),
  ...["mp3", "mpeg", "mpga", "x-mp3"].map((format) => [format, "mp3"] as const),
]);
/** The field of `supports` that a model must declare to receive a part. */
const DECLARED_BY = { image_url: "vision", file: "files", input_audio: "audio" } as const;

const HINTED = new Map(
  [MESSAGE_FIELDS, TOOL_FIELDS, ...Object.values(PART_FIELDS)].map((fields) => [fields, withCacheHint(fields)]),
);

type Fields = Record<string, unknown>;
/** A name that differs in more letters is not meant. */
const MAX_WRONG_LETTERS = 2;
const OPERATOR_MAY_ALLOW = "the operator may allow it with forward in PURSER_CONFIG";
/** What serves in place of fields that clients often send. A map, because callers choose the names of fields. */
const ALTERNATIVES: ReadonlyMap<string, string> = new Map([
  ["mcp_servers", "an agent can use MCP servers (its tool mcp), and your program can offer their tools as its own"],
  ["functions", "send tools"],
  ["max_output_tokens", "send max_completion_tokens"],
  ["max_new_tokens", "send max_completion_tokens"],
  ["stop_sequences", "send stop"],
  ["store", "POST /api/v1/responses stores responses"],
  ["instructions", "send a message with the role system"],
  ["system", "send a message with the role system"],
  ["input", "send messages"],
  ["text", "send response_format"],
  ["function_call", "send tool_choice"],
  ["thread_id", "POST /api/v1/agents/{id}/chat keeps conversations: send thread_id there"],
]);

type Target = Pick<Model, "id" | "kind" | "forward" | "route" | "supports">;

/** The request with the fields that `model` accepts. Throws a 400 that names the first field that is not allowed. */
export function forwardedRequest(request: ChatRequest, model: Target): ChatRequest {
  const forwarded: Fields = {};
  const has_tools = (request.tools ?? []).length > 0;
  for (const [field, value] of Object.entries(request)) {
    if (value === undefined || value === null) continue;
    if (has_tools || !OF_TOOLS.includes(field)) {
      if (isForwarded(field, value, model)) forwarded[field] = value;
    }
  }
  forwarded.messages = request.messages.map((message, index) => toMessage(message, `messages[${index}]`, model));
  if (has_tools) {
    forwarded.tools = request.tools?.map((tool, index) => toTool(tool, `tools[${index}]`, model));
  }
  if (request.tool_choice != null) {
    const choice = toChoice(request.tool_choice, model);
    if (has_tools) forwarded.tool_choice = choice;
  }
  if (request.response_format != null) forwarded.response_format = toFormat(request.response_format);
  if (request.stream_options != null) {
    forwarded.stream_options = keep(request.stream_options, STREAM_FIELDS, "stream_options");
  }
  return forwarded as ChatRequest;
}

/** The fields beside model and input that the provider of an embedding model gets. Throws a 400 as for chat. */
export function forwardedEmbeddingFields(
  request: EmbeddingRequest,
  { forward, kind }: Pick<Model, "forward" | "kind">,
): Fields {
  const { model: _model, input: _input, ...fields } = request;
  const forwarded: Fields = {};
  for (const [field, value] of Object.entries(fields)) {
    if (value == null) continue;
    const is_known = (EMBEDDING_FIELDS as readonly string[]).includes(field);
    if (is_known || forward.includes(field)) forwarded[field] = value;
    else if (!isDefault(field, value) && !advisory.has(field)) throw unsupported(field, kind);
  }
  return forwarded;
}

/** Whether the provider of a model gets a field of a chat completion, with any value. */
export function takesField(field: string, { kind, forward }: Pick<Model, "kind" | "forward">): boolean {
  const { lacked_fields, forwarded_fields } = traitsOf(kind);
  if (forward.includes(field) || forwarded_fields.includes(field)) return true;
  return served.has(field) && !lacked_fields.includes(field);
}

/** Whether a field is forwarded. False: it is accepted and dropped. */
function isForwarded(field: string, value: unknown, model: Target): boolean {
  // Providers reject an empty list of stop sequences.
  if (field === "stop" && isDefault(field, value)) return false;
  // Several providers reject `n`, also for one choice.
  if (field === "n" && value === 1 && !model.forward.includes(field)) return false;
  if (takesField(field, model)) return true;
  if (isDefault(field, value) || advisory.has(field)) return false;
  throw unsupported(field, model.kind);
}

function unsupported(field: string, kind: Model["kind"]): Error {
  const traits = traitsOf(kind);
  const by_operator = traits.takes_other_fields ? OPERATOR_MAY_ALLOW : undefined;
  return gatewayErrors.unsupportedParameter(field, ALTERNATIVES.get(field) ?? misspelt(field, traits) ?? by_operator);
}

/** The field that a misspelt one may mean. */
function misspelt(field: string, { forwarded_fields }: ReturnType<typeof traitsOf>): string | null {
  const names = [...SERVED_FIELDS, ...ADVISORY_FIELDS, ...forwarded_fields];
  const meant = names.find((name) => editDistance(name, field) <= MAX_WRONG_LETTERS && field.length > 4);
  return meant === undefined ? null : `did you mean ${meant}?`;
}

/** Whether a field requests only what holds without it. */
export function isDefault(field: string, value: unknown): boolean {
  const defaults = Object.hasOwn(DEFAULT_VALUES, field) ? DEFAULT_VALUES[field] : undefined;
  return defaults?.some((each) => isDeepStrictEqual(each, value)) ?? false;
}

function toMessage(message: ChatMessage, param: string, model: Target): ChatMessage {
  const is_answer = message.role === "assistant";
  const given = keep(message, hinted(MESSAGE_FIELDS, model), param, is_answer);
  const kept = is_answer ? { ...given, ...reasoningFor(message, model) } : given;
  if (message.tool_calls != null) kept.tool_calls = message.tool_calls.map((call) => toCall(call, message, model));
  if (!Array.isArray(message.content)) return kept;
  const content = message.content.map((part, index) =>
    toPart(part, { param: `${param}.content[${index}]`, model, is_answer }),
  );
  return { ...kept, content };
}

function toPart(
  part: ContentPart,
  { param, model, is_answer }: { param: string; model: Target; is_answer: boolean },
): ContentPart {
  const { type } = part;
  const allowed = Object.hasOwn(PART_FIELDS, type) ? PART_FIELDS[type] : undefined;
  const declared_by = DECLARED_BY[type as keyof typeof DECLARED_BY];
  if (allowed === undefined || (declared_by !== undefined && !model.supports[declared_by])) {
    throw errors.invalidValue(param, `${model.id} takes no parts of type ${type.slice(0, 40)}. ${takenParts(model)}`);
  }
  const kept = keep(part, hinted(allowed, model), param, is_answer);
  const inner = MEDIA_FIELDS[type];
  if (inner === undefined) return kept;
  const value = part[type];
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw errors.invalidValue(`${param}.${type}`, `${param}.${type} must be an object.`);
  }
  return { ...kept, [type]: mediaFields(type, keep(value as Fields, inner, `${param}.${type}`), `${param}.${type}`) };
}

/**
 * A picture, a file or audio with its usual media type. Throws 400 for an address of another scheme than http(s), and
 * for any address of a file or audio: the provider's server could open it (`file://`, its own network).
 */
function mediaFields(type: string, fields: Fields, param: string): Fields {
  if (type === "image_url") {
    const url = usualDataUrl(String(fields.url));
    if (/^(?:data:image\/[^,]*;base64,|https?:\/\/)/i.test(url)) return { ...fields, url };
    throw errors.invalidValue(
      `${param}.url`,
      `${param}.url must be a picture: a data: URL in base64 whose type begins with image/, or an http(s) address.`,
    );
  }
  if (type === "file") {
    const { file_data, file_id } = fields;
    if (file_id !== undefined && !FILE_ID.test(String(file_id))) {
      throw errors.invalidValue(`${param}.file_id`, `${param}.file_id must be the id of a file, not an address.`);
    }
    if (file_data === undefined) return fields;
    const data = usualDataUrl(String(file_data));
    if (isInline(data)) return { ...fields, file_data: data };
    throw errors.invalidValue(
      `${param}.file_data`,
      `${param}.file_data must be a data: URL in base64. Files are not fetched from addresses.`,
    );
  }
  return toAudio(fields, param);
}

/** Audio as its data and one of OpenAI's formats. Clients also send a data: URL, or the media type as the format. */
function toAudio({ data, format }: Fields, param: string): Fields {
  const parsed = typeof data === "string" ? parseDataUrl(data) : null;
  const plain = parsed?.data ?? data;
  if (typeof plain === "string" && (plain.startsWith("data:") || !isInline(plain))) {
    throw errors.invalidValue(`${param}.data`, `${param}.data must be in base64. Audio is not fetched from addresses.`);
  }
  const named = String(format ?? parsed?.media_type ?? "").toLowerCase();
  const usual = AUDIO_FORMATS.get(named.replace(/^audio\//, "").split(";")[0] ?? "") ?? format;
  return { ...(plain === undefined ? {} : { data: plain }), ...(usual === undefined ? {} : { format: usual }) };
}

/** Whether a text is data: a data: URL, or base64. Addresses have a colon or a dot near their beginning. */
function isInline(text: string): boolean {
  return /^data:/i.test(text) || BASE64.test(text.slice(0, INLINE_START_CHARS));
}

function takenParts({ supports }: Target): string {
  const media = Object.entries(DECLARED_BY).filter(([, declared_by]) => supports[declared_by]);
  return `Send ${["text", ...media.map(([type]) => type)].join(", ")}, or choose another model (GET /api/v1/models, supports).`;
}

/** Other fields of a call belong to the provider that made it, so they are dropped. */
function toCall(call: AnyToolCall, message: ChatMessage, model: Target): AnyToolCall {
  const kept = callFor(keep(call, CALL_FIELDS, "", true), message, model);
  if (kept.type === "custom") return { ...kept, custom: keep(kept.custom, CALLED_FIELDS, "", true) };
  return { ...kept, function: keep(kept.function, CALLED_FIELDS, "", true) };
}

function toChoice(choice: ToolChoice, { kind }: Target): ToolChoice {
  if (typeof choice === "string") return choice;
  const kept = keep(choice, CHOICE_FIELDS, "tool_choice");
  if (kept.type === "function") {
    return { ...kept, function: keep(kept.function, CHOSEN_FIELDS, "tool_choice.function") };
  }
  if (!traitsOf(kind).takes_custom_tools) throw gatewayErrors.unsupportedParameter("tool_choice.type");
  return { ...kept, custom: keep(kept.custom, CHOSEN_FIELDS, "tool_choice.custom") };
}

function toFormat(format: ResponseFormat): ResponseFormat {
  if (format.type !== "json_schema") return keep(format, FORMAT_FIELDS, "response_format");
  const json_schema = keep(format.json_schema, SCHEMA_FIELDS, "response_format.json_schema");
  return { ...keep(format, SCHEMA_FORMAT_FIELDS, "response_format"), json_schema };
}

function toTool(tool: Tool, param: string, model: Target): Tool {
  if (tool.type !== "function" && (tool.type !== "custom" || !traitsOf(model.kind).takes_custom_tools)) {
    throw gatewayErrors.unsupportedParameter(`${param}.type`);
  }
  const kept = keep(tool, hinted(TOOL_FIELDS, model), param);
  if (kept.type === "custom") return { ...kept, custom: keep(kept.custom, CUSTOM_FIELDS, `${param}.custom`) };
  return { ...kept, function: keep(kept.function, FUNCTION_FIELDS, `${param}.function`) };
}

function hinted(fields: ReadonlySet<string>, { kind }: Target): ReadonlySet<string> {
  return traitsOf(kind).takes_cache_control ? (HINTED.get(fields) ?? fields) : fields;
}

/**
 * The object with its allowed fields, without hints and nulls. With `is_answer`, all other fields are dropped too: an
 * answer that a client sends back has its provider's own fields.
 */
function keep<Value extends object>(
  value: Value,
  allowed: Pick<ReadonlySet<string>, "has">,
  param: string,
  is_answer = false,
): Value {
  let kept: Fields | null = null;
  for (const [field, inner] of Object.entries(value)) {
    if (allowed.has(field) && (inner !== null || field === "content")) continue;
    const is_dropped = inner == null || advisory.has(field) || (is_answer && field !== "audio");
    if (!is_dropped) throw gatewayErrors.unsupportedParameter(`${param}.${field}`);
    kept ??= { ...value } as Fields;
    delete kept[field];
  }
  return (kept ?? value) as Value;
}
