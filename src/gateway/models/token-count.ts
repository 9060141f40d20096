import type { ChatRequest, ContentPart } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { heldJsonTokens } from "./held-text.ts";
import type { Counts, Model, ModelRequest, PartTokens, ProviderRequest } from "./models.types.ts";
import { REASONING_FIELDS } from "./reasoning.ts";
import { calledFunction } from "./tool-calls.ts";

/**
 * A bill without the provider's figures takes a quarter of a token per byte, and expects half a token per byte at most
 * in the context window. A hold takes more (`held-text.ts`).
 */
const BILL_BYTES_PER_TOKEN = 4;
const LIKELY_BYTES_PER_TOKEN = 2;
/** The fields of a message that its provider bills beside content and tool calls. */
const BILLED_FIELDS = ["name", "refusal", ...REASONING_FIELDS];

/**
 * The hold for the input of a request of `bytes`: for its texts by script and kind, and half a token per byte at least;
 * the worst case for its other parts; and `added_tokens` for what is sent besides the request.
 */
export function heldInput(
  { request, model }: Pick<ModelRequest, "request" | "model">,
  bytes: number,
  added_tokens = 0,
): Pick<ProviderRequest, "input_tokens" | "media_tokens" | "likely_tokens"> {
  const { known_tokens, is_unbounded, likely_tokens, data_bytes, text } = findMedia(request, model);
  const least_tokens = Math.ceil((bytes - data_bytes) / LIKELY_BYTES_PER_TOKEN);
  const text_tokens = Math.max(heldJsonTokens(text), least_tokens) + added_tokens;
  const rest_tokens = Math.max(0, model.context_window - text_tokens);
  const media_tokens = is_unbounded ? Math.max(rest_tokens, known_tokens) : known_tokens;
  return {
    input_tokens: text_tokens + media_tokens,
    media_tokens,
    likely_tokens: least_tokens + added_tokens + likely_tokens,
  };
}

/** Tokens billed for `text` if the provider reported none: ceil(UTF-8 bytes / 4). */
export function estimateTokens(text: string): number {
  return tokensOfBytes(Buffer.byteLength(text));
}

/** The same for a text of `bytes`. */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BILL_BYTES_PER_TOKEN);
}

/**
 * The bill of a call whose provider reported no usable figures, for `output_bytes` of generated text. Pictures, files and
 * audio cost the amount of their hold: there is no evidence that the provider bills less.
 */
export function estimateCounts(
  { request, media_tokens, native_bytes = 0 }: ProviderRequest,
  output_bytes: number,
): Counts {
  const native_tokens = tokensOfBytes(native_bytes);
  return {
    input_tokens: estimateTokens(billedText(request)) + native_tokens + media_tokens,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: tokensOfBytes(output_bytes),
    reasoning_tokens: 0,
    estimated: true,
  };
}

/** The parts of a request that the model reads, in order: texts, tool calls, tool results and tool definitions. */
export function promptText(request: ChatRequest): string {
  const texts: string[] = [];
  for (const message of request.messages) {
    if (typeof message.content === "string") texts.push(message.content);
    else for (const part of message.content ?? []) if (typeof part.text === "string") texts.push(part.text);
    for (const call of (message.tool_calls ?? []).map(calledFunction)) texts.push(call.name, call.arguments);
  }
  if (request.tools != null) texts.push(JSON.stringify(request.tools));
  return texts.join("\n");
}

/** `promptText`, and the other parts of a request that its provider bills as input. */
export function billedText(request: ChatRequest): string {
  const texts = [promptText(request)];
  const add = (value: unknown) => {
    if (value != null) texts.push(typeof value === "string" ? value : JSON.stringify(value));
  };
  for (const message of request.messages) {
    for (const field of BILLED_FIELDS) add(message[field]);
    if (Array.isArray(message.content)) for (const { refusal } of message.content) add(refusal);
  }
  if (request.response_format?.type === "json_schema") add(request.response_format.json_schema);
  return texts.join("\n");
}

/** The sum of the calls of one answer. The first one, whose input is the shortest, decides the tier. */
export function sumOfCounts([first, ...others]: readonly [Counts, ...Counts[]]): Counts {
  const all = [first, ...others];
  const sum = (pick: (counts: Counts) => number) => all.reduce((total, counts) => total + pick(counts), 0);
  return {
    input_tokens: sum((counts) => counts.input_tokens),
    cached_input_tokens: sum((counts) => counts.cached_input_tokens),
    cache_write_tokens: sum((counts) => counts.cache_write_tokens),
    cache_write_1h_tokens: sum((counts) => counts.cache_write_1h_tokens),
    output_tokens: sum((counts) => counts.output_tokens),
    reasoning_tokens: sum((counts) => counts.reasoning_tokens),
    ...(others.length === 0 ? {} : { call_input_tokens: first.input_tokens }),
    estimated: all.some(({ estimated }) => estimated),
  };
}

/** No bound is documented. */
export const UNBOUNDED_PART_TOKENS: PartTokens = { image: null, file: null, audio: null };

/** A part of unknown size reduces the room for the answer by this much, although far more is held for it. */
const LIKELY_PART_TOKENS = 4_096;
const DATA_URL = /^data:[a-z0-9.+-]{1,64}\/[a-z0-9.+-]{1,64};base64,/;
const KINDS = { image_url: "image", file: "file", input_audio: "audio" } as const;
/** The fields of parts that may hold data. The provider reads invalid data as text, so it counts as text. */
const DATA_FIELDS = [
  ["image_url", "url"],
  ["file", "file_data"],
  ["input_audio", "data"],
] as const;

/** A request's pictures, files and audio. */
interface Media {
  /** The worst case of those with a documented bound. */
  known_tokens: number;
  /** One has no documented bound, so it may fill the context window. */
  is_unbounded: boolean;
  /** The part of the context window that they are likely to need. */
  likely_tokens: number;
  /** Bytes of the request that are media data, not text. */
  data_bytes: number;
  /** The request without this data. */
  text: ChatRequest;
}

/**
 * The pictures, files and audio of a request, at their worst case. Their size is unknown: a picture of a few bytes may
 * be large, and an address may lead to any file. Without a documented bound, the rest of the context window is held.
 */
function findMedia(request: ChatRequest, { part_tokens }: Pick<Model, "part_tokens">): Media {
  const bounds: (number | null)[] = [];
  let data_bytes = 0;
  const withoutData = (part: ContentPart): ContentPart => {
    if (!Object.hasOwn(KINDS, part.type)) return part;
    bounds.push(part_tokens[KINDS[part.type as keyof typeof KINDS]]);
    const copy: Record<string, unknown> = { ...part };
    for (const [place, field] of DATA_FIELDS) {
      const holder = fieldsOf(part[place]);
      const { [field]: data } = holder;
      if (!isData(data)) continue;
      data_bytes += data.length;
      copy[place] = { ...holder, [field]: "" };
    }
    return copy as ContentPart;
  };
  const messages = request.messages.map((message) => {
    const { content } = message;
    const has_media = Array.isArray(content) && content.some(({ type }) => Object.hasOwn(KINDS, type));
    return has_media ? { ...message, content: content.map(withoutData) } : message;
  });
  return {
    known_tokens: bounds.reduce<number>((sum, bound) => sum + (bound ?? 0), 0),
    is_unbounded: bounds.includes(null),
    likely_tokens: bounds.reduce<number>((sum, bound) => sum + Math.min(bound ?? Infinity, LIKELY_PART_TOKENS), 0),
    data_bytes,
    text: { ...request, messages },
  };
}

function isData(value: unknown): value is string {
  return typeof value === "string" && isBase64(value.slice(DATA_URL.exec(value)?.[0].length ?? 0));
}

/** Compares lengths: a regular expression would take five times as long. */
function isBase64(text: string): boolean {
  const digits = text.endsWith("==") ? text.length - 2 : text.endsWith("=") ? text.length - 1 : text.length;
  return digits % 4 !== 1 && Buffer.from(text, "base64").length === Math.floor((digits * 3) / 4);
}
