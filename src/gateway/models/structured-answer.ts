import type { ChatMessage } from "../../api/contract/completions.ts";
import { schemaFault } from "./json-schema.ts";
import type { Counts, ProviderRequest } from "./models.types.ts";
import { isSameTier } from "./pricing.ts";

/** Checks JSON answers that the provider does not check. Pure. */

/** A shorter correction is of no use. */
const LEAST_OUTPUT_TOKENS = 64;
/** The most tokens of the words around the schema and the fault. */
export const WORDS_TOKENS = 300;
/** The most characters of a fault at each end. The caller's schema and the model's answer choose its names. */
const SHOWN_FAULT = 100;
const FENCE = "```";
const OPENING = /^```(?:json)?\s*\n/;

/**
 * The call that corrects an answer. Null: the answer is valid or not checked, the output cap is used up, or the call
 * would be billed in a higher tier than the first one, and a charge has the rates of one tier.
 */
export function correctionOf(
  call: ProviderRequest,
  answer: { content: string | null; counts: Counts; schema: Record<string, unknown> },
): ProviderRequest | null {
  const { content, counts, schema } = answer;
  if (content === null) return null;
  const fault = faultOf(content, schema);
  const max_output_tokens = call.max_output_tokens - counts.output_tokens;
  const next_input_tokens = counts.input_tokens + counts.output_tokens + WORDS_TOKENS;
  if (fault === null || max_output_tokens < LEAST_OUTPUT_TOKENS) return null;
  if (!isSameTier(call.model, counts.input_tokens, next_input_tokens)) return null;
  const messages: ChatMessage[] = [
    ...call.request.messages,
    { role: "assistant", content },
    {
      role: "user",
      content: `This is not valid: ${shortened(fault)}. Answer with the corrected JSON and nothing else.`,
    },
  ];
  return { ...call, request: { ...call.request, messages }, max_output_tokens };
}

/** The text of an answer without the fence that many models put around JSON. Linear in any text. */
export function jsonText(text: string): string {
  const trimmed = text.trim();
  const [opening] = OPENING.exec(trimmed) ?? [];
  if (opening === undefined || !trimmed.endsWith(FENCE)) return trimmed;
  return trimmed.slice(opening.length, -FENCE.length).replace(/\n$/, "");
}

function shortened(fault: string): string {
  if (fault.length <= 2 * SHOWN_FAULT) return fault;
  return `${fault.slice(0, SHOWN_FAULT)} … ${fault.slice(-SHOWN_FAULT)}`.toWellFormed();
}

function faultOf(content: string, schema: Record<string, unknown>): string | null {
  try {
    return schemaFault(JSON.parse(content), schema);
  } catch {
    return "it is not JSON";
  }
}
