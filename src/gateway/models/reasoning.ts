import type {
  AnyToolCall,
  ChatMessage,
  ChatRequest,
  ExtraContent,
  ReasoningDetail,
} from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { Model } from "./models.types.ts";
import { traitsOf } from "./providers.ts";

/**
 * Reasoning goes back only to the provider and the model that made it, by the same route: a signature is valid nowhere
 * else, and only the account that encrypted reasoning was made for can read it. Pure.
 */

/** The fields of an answer that hold its reasoning. */
export const REASONING_FIELDS = ["reasoning_content", "reasoning", "reasoning_details"] as const;

type Target = Pick<Model, "id" | "kind" | "route">;

/** The marks of a piece of reasoning: the model that made it and, of a model with routes, the route. */
interface Maker {
  model?: unknown;
  route?: unknown;
}

/** The reasoning of an answer as `model` may get it back. */
export function reasoningFor(message: ChatMessage, model: Target): Partial<ChatMessage> {
  if (isForeign(message, model)) return {};
  const { reasoning_content, reasoning, reasoning_details } = message;
  const details = returned(reasoning_details, model);
  // A provider gets its own field back. The answer has `reasoning` in both, and some servers reject the other field.
  const readable = reasoning_content === reasoning ? { reasoning } : { reasoning_content, reasoning };
  return {
    // A provider with its own format reads only that.
    ...(traitsOf(model.kind).reasoning_format === null ? present(readable) : {}),
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

/** The route that made the latest reasoning of `model_id` in a request; null: it has none with a route. */
export function routeOfReasoning({ messages }: ChatRequest, model_id: string): string | null {
  for (const message of messages.toReversed()) {
    if (message.role !== "assistant") continue;
    const { reasoning_details: details, tool_calls } = message;
    const calls = (tool_calls ?? []).map(({ extra_content }) => extra_content?.google);
    const makers: (Maker | null | undefined)[] = [message, ...(Array.isArray(details) ? details : []), ...calls];
    const found = makers.find((maker) => typeof maker?.route === "string" && (maker.model ?? model_id) === model_id);
    if (found != null) return found.route as string;
  }
  return null;
}

/** Models of OpenAI that do not reason. They reject a request for encrypted reasoning. */
export const WITHOUT_REASONING = /^(?:gpt-3|gpt-4|chatgpt|gpt-5-chat|ft:gpt-[34])/;
/** Models of Google that reason only in versions of their own. */
const GEMINI_WITHOUT_REASONING = /^(?:models\/)?gemini-(?:1|2\.0)/;
/** Settings of reasoning in the dialects of all servers, such as `reasoning_effort`, `thinking` and `enable_thinking`. */
const REASONING_SETTING = /reason|think/;
const OFF: ReadonlySet<unknown> = new Set([null, undefined, false, 0, "none", "off", "disabled"]);

/** Whether the model may reason in its answer to a request: the request asks for it, or the model does so by default. */
export function mayReason(
  request: ChatRequest,
  { kind, provider_model }: Pick<Model, "kind" | "provider_model">,
): boolean {
  const settings = Object.entries(request).filter(([field]) => REASONING_SETTING.test(field));
  const efforts = [...settings.map(([, value]) => value), fieldsOf(request.output_config).effort];
  if (efforts.some(isOn)) return true;
  if (settings.some(([, value]) => value != null)) return false;
  if (kind === "openai") return !WITHOUT_REASONING.test(provider_model);
  return kind === "google" && !GEMINI_WITHOUT_REASONING.test(provider_model);
}

function isOn(setting: unknown): boolean {
  if (typeof setting !== "object" || setting === null) return !OFF.has(setting);
  const { type, effort, enabled } = setting as Record<string, unknown>;
  return [type, effort, enabled].every((each) => each === undefined || !OFF.has(each));
}

/** Marks the reasoning in the choices of an OpenAI-compatible provider with its route. Accepts any value. */
export function markRoute(choices: unknown, { route }: Pick<Model, "route">): void {
  if (route === null || !Array.isArray(choices)) return;
  for (const choice of choices as ({ message?: ChatMessage; delta?: ChatMessage } | null)[]) {
    const details: unknown = (choice?.message ?? choice?.delta)?.reasoning_details;
    if (!Array.isArray(details)) continue;
    for (const detail of details) if (typeof detail === "object" && detail !== null) detail.route = route;
  }
}

/** Answers that a caller sends back through another API have no mark of a route; their pieces of reasoning have. */
function isForeign({ model, route }: ChatMessage, target: Target): boolean {
  return (model != null && model !== target.id) || (route != null && route !== target.route);
}

/** A piece without any mark came from elsewhere, and its provider checks it. */
function isForeignPiece({ model, route }: Maker, target: Target): boolean {
  if (model == null && route == null) return false;
  return (model != null && model !== target.id) || (route ?? null) !== target.route;
}

function returned(details: unknown, target: Target): ReasoningDetail[] | undefined {
  if (!Array.isArray(details)) return undefined;
  const { reasoning_format } = traitsOf(target.kind);
  const kept = (details as (Partial<ReasoningDetail> | null)[]).filter((detail) => {
    if (typeof detail !== "object" || detail === null) return false;
    if (isForeignPiece(detail, target)) return false;
    // A provider without a format of its own checks its own details.
    if (reasoning_format === null) return true;
    return isWellFormed(detail) && (detail.format == null || detail.format === reasoning_format);
  });
  if (kept.length === 0) return undefined;
  // An OpenAI-compatible provider gets its pieces as it sent them.
  const unmarked = (kept as ReasoningDetail[]).map(({ route: _, ...detail }) => detail);
  return (reasoning_format === null ? unmarked : kept) as ReasoningDetail[];
}

/** The texts are texts: a converter would fail at anything else, as if the provider had failed. */
function isWellFormed({ type, index, ...texts }: Partial<ReasoningDetail>): boolean {
  const { text, summary, signature, data, id } = texts;
  const are_texts = [text, summary, signature, data, id].every((value) => value == null || typeof value === "string");
  return are_texts && typeof type === "string" && (index == null || typeof index === "number");
}

/** Only Gemini signs its calls. An OpenAI-compatible provider gets what it sent. */
function extraFor(extra: ExtraContent | undefined, target: Target): ExtraContent | undefined {
  if (typeof extra !== "object" || extra === null) return undefined;
  if (isForeignPiece(extra.google ?? {}, target)) return undefined;
  const { kind } = target;
  return kind === "google" || kind === "openai-compatible" ? extra : undefined;
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}
