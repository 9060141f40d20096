import type { ChatRequest, ContentPart } from "../contract/completions.ts";
import type { Model, PartTokens } from "./models.types.ts";

/**
 * The worst-case cost of pictures, files and audio. Their size is unknown: a picture of a few bytes may be large, and
 * an address may lead to any file. If a provider documents no bound, the rest of the context window is held.
 */

/** No bound is documented. */
export const UNBOUNDED_PART_TOKENS: PartTokens = { image: null, file: null, audio: null };

/** A part of unknown size reduces the room for the answer by this much, although far more is held for it. */
const LIKELY_PART_TOKENS = 4_096;
const DATA_URL = /^data:[a-z0-9.+-]{1,64}\/[a-z0-9.+-]{1,64};base64,/;
const KINDS = { image_url: "image", file: "file", input_audio: "audio" } as const;

/** A request's pictures, files and audio. */
export interface Media {
  /** Their worst case; never more than the context window leaves beside the text. */
  media_tokens: number;
  /** The part of the context window that they are likely to need. */
  likely_tokens: number;
  /** Bytes of the request that are media data, not text. */
  data_bytes: number;
}

const NO_MEDIA: Media = { media_tokens: 0, likely_tokens: 0, data_bytes: 0 };

/** `textTokens`: returns the worst case of the request's text, given the number of bytes that are media data. */
export function mediaOf(
  request: ChatRequest,
  model: Pick<Model, "part_tokens" | "context_window">,
  textTokens: (data_bytes: number) => number,
): Media {
  const parts = mediaParts(request);
  if (parts.length === 0) return NO_MEDIA;
  const bounds = parts.map((part) => model.part_tokens[KINDS[part.type as keyof typeof KINDS]]);
  const data_bytes = parts.reduce((sum, part) => sum + dataBytes(part), 0);
  const rest = Math.max(0, model.context_window - textTokens(data_bytes));
  const known = bounds.reduce<number>((sum, bound) => sum + (bound ?? 0), 0);
  const likely_tokens = bounds.reduce<number>((sum, bound) => sum + Math.min(bound ?? Infinity, LIKELY_PART_TOKENS), 0);
  return { media_tokens: bounds.includes(null) ? Math.max(rest, known) : known, likely_tokens, data_bytes };
}

function mediaParts({ messages }: ChatRequest): ContentPart[] {
  const parts: ContentPart[] = [];
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    for (const part of content ?? []) if (Object.hasOwn(KINDS, part.type)) parts.push(part);
  }
  return parts;
}

/** Bytes of valid media data. The provider reads invalid data as text, so it counts as text. */
function dataBytes({ image_url, file, input_audio }: ContentPart): number {
  const candidates = [image_url?.url, (file as Fields)?.file_data, (input_audio as Fields)?.data];
  return candidates.reduce<number>((sum, data) => sum + (isData(data) ? data.length : 0), 0);
}

type Fields = Record<string, unknown> | undefined;

function isData(value: unknown): value is string {
  return typeof value === "string" && isBase64(value.slice(DATA_URL.exec(value)?.[0].length ?? 0));
}

/** Compares lengths: for 32 MB, a regular expression would block the event loop five times as long. */
function isBase64(text: string): boolean {
  const digits = text.endsWith("==") ? text.length - 2 : text.endsWith("=") ? text.length - 1 : text.length;
  return digits % 4 !== 1 && Buffer.from(text, "base64").length === Math.floor((digits * 3) / 4);
}
