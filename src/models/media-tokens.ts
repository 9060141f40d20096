import type { ChatRequest, ContentPart } from "../contract/completions.ts";
import type { Model, PartTokens } from "./models.types.ts";

/**
 * The worst-case cost of pictures, files and audio. Their size is unknown: a picture of a few bytes may be large, and
 * an address may lead to any file. If a provider documents no bound, the rest of the context window is held.
 */

const NO_BOUND: PartTokens = { image: null, file: null, audio: null };

const patches = (most: number, tokens_per_patch: number): PartTokens => ({
  ...NO_BOUND,
  image: Math.ceil(most * tokens_per_patch),
});

/** https://developers.openai.com/api/docs/guides/images-vision, read 2026-11-22, at the costliest `detail`. */
export const OPENAI_PART_TOKENS = {
  /** gpt-6: up to 30,000 patches of 32 × 32 pixels; larger pictures are rejected. */
  patches_30000: patches(30_000, 1),
  /** gpt-5.5, `detail: original`: 10,000 patches. */
  patches_10000: patches(10_000, 1),
  /** gpt-5.4-mini and gpt-4.1-mini: 1,536 patches × 1.62. */
  mini: patches(1_536, 1.62),
  /** gpt-5.4-nano: 1,536 patches × 2.46. */
  nano: patches(1_536, 2.46),
  /** gpt-4.1: 85 + 170 for each of at most 8 tiles (2,048 × 768 pixels in tiles of 512 × 512). */
  tiles: { ...NO_BOUND, image: 85 + 8 * 170 },
} as const satisfies Record<string, PartTokens>;

/**
 * https://platform.claude.com/docs/en/build-with-claude/vision, read 2026-11-22: a picture is scaled down to 4,784 tokens,
 * before Claude 4.7 to 1,568. A PDF page costs its text and a picture, and the text has no bound.
 */
export const CLAUDE_PART_TOKENS = {
  high_resolution: { ...NO_BOUND, image: 4_784 },
  standard: { ...NO_BOUND, image: 1_568 },
} as const satisfies Record<string, PartTokens>;

const GEMINI_PDF_PAGES = 1_000;
const GEMINI_3_PAGE_TOKENS = 560;
/**
 * https://ai.google.dev/gemini-api/docs/media-resolution and /document-processing: Gemini 3 takes 1,120 tokens for a
 * picture and 560 for a PDF page, whose text is free; a PDF has at most 1,000 pages.
 */
export const GEMINI_3_PART_TOKENS: PartTokens = {
  ...NO_BOUND,
  image: 1_120,
  file: GEMINI_PDF_PAGES * GEMINI_3_PAGE_TOKENS,
};

/** https://docs.x.ai/docs/guides/image-understanding: 256 tokens for each of at most 6 tiles, and 256 more. */
export const GROK_PART_TOKENS: PartTokens = { ...NO_BOUND, image: 1_792 };

/** Gemini 2.5 (tiles without a documented maximum), Mistral and the operator's own models. */
export const UNBOUNDED_PART_TOKENS = NO_BOUND;

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
