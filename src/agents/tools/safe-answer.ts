import type { SafetyLevel } from "../../api/contract/tool-fields.ts";
import type { OutboundResponse } from "../../platform/net/outbound.ts";
import type { Sanitized } from "../../safety/sanitize.ts";
import { BUSY, type Sanitizer, type Sanitizers } from "../../safety/sanitizer.ts";
import { readFetched } from "./fetched-text.ts";
import type { ToolResult } from "./tools.types.ts";

/** The most text of one answer that goes to the model: more would fill its context and raise its owner's bill. */
export const MAX_TEXT_CHARS = 100_000;

/** A server's answer, safe for the model. */
export type SafeAnswer = { text: string } & Pick<ToolResult, "safety" | "links"> & Pick<Sanitized, "unlisted">;

/** All texts of an answer that are kept or shown. */
export function textsOf({ text, safety, links }: SafeAnswer): string[] {
  const passages = [...(safety?.removed ?? []), ...(safety?.marked ?? [])];
  return [text, ...links, ...passages.flatMap(({ technique, excerpt }) => [technique, excerpt])];
}

/** Replaces the answer when the request used a secret that is too short to search for; only the status is returned. */
export const WITHHELD = "The answer is left out: the secret that was used is too short to be looked for in it.";

/** The message to the model when the safety layer is BUSY. */
export const SAFETY_BUSY =
  "the safety layer cannot check the answer now, because too many pages wait for it or one of its judges does not answer; call the tool again later, or go on without it";

/** The safety level in a tool's settings; `off` applies only while the operator allows it. */
export function getLevel({ safety = "balanced" }: { safety?: SafetyLevel | undefined }, deps: SafetyDeps): SafetyLevel {
  return safety === "off" && deps.safety_off !== "allowed" ? "balanced" : safety;
}

export interface SafetyDeps {
  sanitizer: Sanitizers;
  /** Whether tools may be set to `safety: off`. */
  safety_off: "refused" | "allowed";
}

/** Passes an answer through the safety layer. Returns a sentence for the model if it cannot be read or made safe. */
export async function safeAnswer(
  { content_type, body, final_url }: OutboundResponse,
  {
    sanitizer,
    level,
    mark,
    links_from,
  }: { sanitizer: Sanitizer; level: SafetyLevel; mark: string; links_from?: number | undefined },
): Promise<SafeAnswer | string> {
  const fetched = await readFetched(body, content_type, new URL(final_url).pathname);
  if (typeof fetched === "object" && "problem" in fetched) return fetched.problem;
  const pdf = fetched === "pdf" ? await sanitizer.pdfText(new Uint8Array(body)) : undefined;
  if (pdf === BUSY) return SAFETY_BUSY;
  if (pdf === null) return "this PDF cannot be read; go on without it";
  const { kind, content } = fetched === "pdf" ? { kind: "text" as const, content: pdf?.text ?? "" } : fetched;
  const sanitized = await sanitizer.sanitize({
    content,
    kind,
    level,
    mark,
    base_url: final_url,
    max_chars: MAX_TEXT_CHARS,
    links_from,
    ...(pdf === undefined ? {} : { pdf: { hidden: pdf.hidden, is_scan: pdf.is_scan } }),
  });
  if (sanitized === BUSY) return SAFETY_BUSY;
  if (sanitized === null) return "the page is too intricate to be made safe; go on without it";
  const { text, links, unlisted } = sanitized;
  return { text, safety: collectFindings(sanitized), links, unlisted };
}

/** The layer's findings for the step. `marked` is there only if a passage was marked, `judges` only if one was asked. */
export function collectFindings({
  verdict,
  removed,
  marked,
  judges = [],
}: Sanitized): NonNullable<ToolResult["safety"]> {
  return {
    verdict,
    removed,
    ...(marked.length === 0 ? {} : { marked }),
    ...(judges.length === 0 ? {} : { judges }),
  };
}
