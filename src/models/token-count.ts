import type { ChatRequest } from "../contract/completions.ts";
import type { Counts } from "./models.types.ts";

/**
 * Tokens are estimated from bytes, never by a tokeniser: those are slow, and quadratic on hostile input. A hold takes
 * half a token a byte, which nothing natural exceeds; a bill without the provider's figures takes the usual quarter.
 */
const HOLD_BYTES_PER_TOKEN = 2;
const BILL_BYTES_PER_TOKEN = 4;
/** A picture behind a link weighs nothing in bytes; this is what a large one costs at the providers offered. */
const IMAGE_TOKENS = 4_096;
/** No model reads or writes as much in one call: a usage report above is nonsense. */
const MAX_REPORTED_TOKENS = 100_000_000;

/** Input tokens to hold for, of a request that is `bytes` long: ceil(bytes / 2), and a fixed amount for each image. */
export function holdInputTokens(request: ChatRequest, bytes: number): number {
  return Math.ceil(bytes / HOLD_BYTES_PER_TOKEN) + countImages(request) * IMAGE_TOKENS;
}

/** Tokens billed for `text` when the provider reported none: ceil(UTF-8 bytes / 4). */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BILL_BYTES_PER_TOKEN);
}

/** The bill of a call whose provider reported no usable figures. */
export function estimateCounts(request: ChatRequest, output: string): Counts {
  return {
    input_tokens: estimateTokens(promptText(request)),
    cached_input_tokens: 0,
    output_tokens: estimateTokens(output),
    reasoning_tokens: 0,
    estimated: true,
  };
}

/** All that the model reads of a request, in order: texts, tool calls, tool results and tool definitions. */
export function promptText(request: ChatRequest): string {
  const texts: string[] = [];
  for (const message of request.messages) {
    if (typeof message.content === "string") texts.push(message.content);
    else for (const part of message.content ?? []) if (typeof part.text === "string") texts.push(part.text);
    for (const call of message.tool_calls ?? []) texts.push(call.function.name, call.function.arguments);
  }
  if (request.tools !== undefined) texts.push(JSON.stringify(request.tools));
  return texts.join("\n");
}

/**
 * OpenAI's usage object as counts, or null when it is missing or nonsense (negative, fractional, absurd, parts above
 * the whole): a provider's slip must not move money.
 */
export function countsOfUsage(usage: unknown): Counts | null {
  if (typeof usage !== "object" || usage === null) return null;
  const reported = usage as Record<string, unknown>;
  const prompt_details = detailsOf(reported.prompt_tokens_details);
  const completion_details = detailsOf(reported.completion_tokens_details);
  return checkedCounts({
    input_tokens: reported.prompt_tokens,
    cached_input_tokens: prompt_details.cached_tokens ?? 0,
    output_tokens: reported.completion_tokens,
    reasoning_tokens: completion_details.reasoning_tokens ?? 0,
  });
}

/** Counts as some provider reported them, or null unless all are whole, in bounds and consistent. */
export function checkedCounts(reported: Record<keyof Omit<Counts, "estimated">, unknown>): Counts | null {
  const { input_tokens, cached_input_tokens, output_tokens, reasoning_tokens } = reported;
  if (!isCount(input_tokens) || !isCount(output_tokens)) return null;
  return {
    input_tokens,
    output_tokens,
    cached_input_tokens: isCount(cached_input_tokens) ? Math.min(cached_input_tokens, input_tokens) : 0,
    reasoning_tokens: isCount(reasoning_tokens) ? Math.min(reasoning_tokens, output_tokens) : 0,
    estimated: false,
  };
}

function countImages(request: ChatRequest): number {
  let images = 0;
  for (const message of request.messages) {
    if (typeof message.content === "string") continue;
    for (const part of message.content ?? []) if (part.type === "image_url") images += 1;
  }
  return images;
}

function detailsOf(details: unknown): Record<string, unknown> {
  return typeof details === "object" && details !== null ? (details as Record<string, unknown>) : {};
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_REPORTED_TOKENS;
}
