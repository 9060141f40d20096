import type { ChatRequest, ContentPart } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
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
/** The fields of parts that may hold data. The provider reads invalid data as text, so it counts as text. */
const DATA_FIELDS = [
  ["image_url", "url"],
  ["file", "file_data"],
  ["input_audio", "data"],
] as const;

/** A request's pictures, files and audio. */
export interface Media {
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

/** The pictures, files and audio of a request. */
export function mediaOf(request: ChatRequest, { part_tokens }: Pick<Model, "part_tokens">): Media {
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

/** Compares lengths: for 32 MB, a regular expression would block the event loop five times as long. */
function isBase64(text: string): boolean {
  const digits = text.endsWith("==") ? text.length - 2 : text.endsWith("=") ? text.length - 1 : text.length;
  return digits % 4 !== 1 && Buffer.from(text, "base64").length === Math.floor((digits * 3) / 4);
}
