import type { AnyToolCall, ChatMessage, ChatRequest, ExtraContent, ReasoningDetail } from "../contract/completions.ts";
import type { Model } from "./models.types.ts";
import { traitsOf } from "./providers.ts";

/**
 * Reasoning goes back only to the provider and the model that made it: a signature is valid nowhere else, and encrypted
 * reasoning is readable nowhere else. Pure.
 */

/** The fields of an answer that hold its reasoning. */
export const REASONING_FIELDS = ["reasoning_content", "reasoning", "reasoning_details"] as const;

type Target = Pick<Model, "id" | "kind">;

/** The reasoning of an answer as `model` may get it back. */
export function reasoningFor(message: ChatMessage, model: Target): Partial<ChatMessage> {
  if (isForeign(message, model)) return {};
  const { reasoning_content, reasoning, reasoning_details } = message;
  const details = returned(reasoning_details, model);
  return {
    // A provider with its own format reads only that.
    ...(traitsOf(model.kind).reasoning_format === null ? present({ reasoning_content, reasoning }) : {}),
    ...(details === undefined ? {} : { reasoning_details: details }),
  };
}

/** The call without the signature of another model. */
export function callFor<Call extends AnyToolCall>(call: Call, message: ChatMessage, model: Target): Call {
  const { extra_content, ...rest } = call;
  const kept = isForeign(message, model) ? undefined : extraFor(extra_content, model);
  return (kept === undefined ? rest : { ...rest, extra_content: kept }) as Call;
}

/** Whether `model` gets the request without some of the reasoning in it. */
export function dropsReasoning({ messages }: ChatRequest, model: Target): boolean {
  return messages.some((message) => {
    if (message.role !== "assistant") return false;
    const { reasoning_details: details, tool_calls } = message;
    const is_foreign = isForeign(message, model);
    if (is_foreign && REASONING_FIELDS.some((field) => message[field] != null)) return true;
    const kept = returned(details, model);
    if (Array.isArray(details) && (kept?.length ?? 0) < details.length) return true;
    return (tool_calls ?? []).some(
      (call) => call.extra_content != null && callFor(call, message, model).extra_content === undefined,
    );
  });
}

function isForeign({ model }: ChatMessage, { id }: Target): boolean {
  return model != null && model !== id;
}

function returned(details: unknown, { id, kind }: Target): ReasoningDetail[] | undefined {
  if (!Array.isArray(details)) return undefined;
  const { reasoning_format } = traitsOf(kind);
  const kept = (details as (Partial<ReasoningDetail> | null)[]).filter((detail) => {
    if (typeof detail !== "object" || detail === null) return false;
    if (detail.model != null && detail.model !== id) return false;
    // A provider without a format of its own checks its own details.
    if (reasoning_format === null) return true;
    return isWellFormed(detail) && (detail.format == null || detail.format === reasoning_format);
  });
  return kept.length === 0 ? undefined : (kept as ReasoningDetail[]);
}

/** The texts are texts: a converter would fail at anything else, as if the provider had failed. */
function isWellFormed({ type, index, ...texts }: Partial<ReasoningDetail>): boolean {
  const { text, summary, signature, data, id } = texts;
  const are_texts = [text, summary, signature, data, id].every((value) => value == null || typeof value === "string");
  return are_texts && typeof type === "string" && (index == null || typeof index === "number");
}

/** Only Gemini signs its calls. An OpenAI-compatible provider gets what it sent. */
function extraFor(extra: ExtraContent | undefined, { id, kind }: Target): ExtraContent | undefined {
  if (typeof extra !== "object" || extra === null) return undefined;
  const made_by = extra.google?.model;
  if (made_by != null && made_by !== id) return undefined;
  return kind === "google" || kind === "openai-compatible" ? extra : undefined;
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}
