import type { ChatRequest, ReasoningDetail } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Body, type Dialect, effortOf, options } from "./language-model-dialect.ts";
import type { Counts, Provider } from "./models.types.ts";
import { WITHOUT_REASONING } from "./reasoning.ts";
import { countsOfUsage } from "./usage-report.ts";

/** Items and parts that an answer is converted from. Others come of tools that are not used here. */
const KNOWN_ITEMS = ["message", "reasoning", "function_call", "custom_tool_call"];
const KNOWN_PARTS = ["output_text", "refusal"];

/** OpenAI's Responses API. Nothing is stored there: the caller keeps the encrypted reasoning. */
export function createOpenAiProvider(settings: { base_url: string | null; api_key: string | null }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(OPENAI, settings, async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return (provider_model, fetch) => {
      const connection = { apiKey: api_key ?? "", fetch, ...(base_url === null ? {} : { baseURL: base_url }) };
      return createOpenAI(connection).responses(provider_model);
    };
  });
}

const OPENAI: Dialect = {
  name: "openai",
  format: "openai-responses-v1",
  hoists_system: false,
  takes_custom_tools: true,
  tool_prompt_tokens: 0,
  settings: { temperature: "temperature", top_p: "top_p" },
  settings_in: null,
  effort: () => undefined,
  options(request, { provider_model }) {
    const effort = effortOf(request);
    const thinks = effort !== undefined && effort !== "none";
    const { summary } = fieldsOf(request.reasoning);
    const format = request.response_format;
    return options({
      store: false,
      forceReasoning: WITHOUT_REASONING.test(provider_model) ? undefined : true,
      reasoningEffort: effort,
      reasoningSummary: typeof summary === "string" ? summary : thinks ? "auto" : null,
      parallelToolCalls: request.parallel_tool_calls,
      promptCacheKey: request.prompt_cache_key,
      promptCacheRetention: request.prompt_cache_retention,
      safetyIdentifier: request.safety_identifier,
      user: request.user,
      textVerbosity: request.verbosity,
      strictJsonSchema: format?.type === "json_schema" ? (format.json_schema.strict ?? false) : undefined,
    });
  },
  known(answer) {
    if (!Array.isArray(answer.output)) return answer;
    const items = answer.output.filter((item) => KNOWN_ITEMS.includes(String(fieldsOf(item).type)));
    const output = items.map((item) => (item.type === "message" ? knownMessage(item) : item));
    return { ...ended(answer), output };
  },
  // One event that the SDK rejects makes it end the whole stream as failed.
  knownEvent: {
    concerns: /"response\.(?:output_text\.annotation\.added|completed|incomplete)"|"phase"/,
    of(event) {
      if (event.type === "response.completed" || event.type === "response.incomplete") {
        const response = ended(fieldsOf(event.response));
        return { ...event, type: response.status === "cancelled" ? "response.failed" : event.type, response };
      }
      if (event.type === "response.output_text.annotation.added") return null;
      return fieldsOf(event.item).type === "message" ? { ...event, item: knownMessage(event.item as Body) } : event;
    },
  },
  isFailed: (answer) => ["failed", "cancelled"].includes(String(fieldsOf(answer).status)),
  details({ text, metadata: { itemId, reasoningEncryptedContent } }) {
    const id = typeof itemId === "string" ? itemId : null;
    const summary = text === "" ? [] : [{ type: "reasoning.summary" as const, summary: text, id }];
    if (typeof reasoningEncryptedContent !== "string") return summary;
    return [...summary, { type: "reasoning.encrypted" as const, data: reasoningEncryptedContent, id }];
  },
  parts: (details) => [...itemsOf(details).values()].flatMap(partsOfItem),
  adjust: (body, { request, model }) => ({ ...allowedByOperator(request, model.forward), ...body }),
};

/**
 * A response whose fields say what the SDK reads from them alone: that it was cut off, and the tokens that only its total
 * has.
 */
function ended(response: Body): Body {
  const { status, incomplete_details, usage } = response;
  const is_cut = status === "incomplete" && typeof fieldsOf(incomplete_details).reason !== "string";
  const counts = countsOfUsage(usage);
  return {
    ...response,
    ...(is_cut ? { incomplete_details: { reason: "max_output_tokens" } } : {}),
    ...(counts === null ? {} : { usage: { ...fieldsOf(usage), ...usageOf(counts) } }),
  };
}

function usageOf({ input_tokens, output_tokens, reasoning_tokens }: Counts): Body {
  return { input_tokens, output_tokens, output_tokens_details: { reasoning_tokens } };
}

/** A message without its phase, which no answer shows, and without parts and annotations of other types. */
function knownMessage({ phase: _, ...message }: Body): Body {
  if (!Array.isArray(message.content)) return message;
  const parts = message.content.filter((part) => KNOWN_PARTS.includes(String(fieldsOf(part).type)));
  return { ...message, content: parts.map((part) => ("annotations" in part ? { ...part, annotations: [] } : part)) };
}

/** The pieces of each reasoning item, in order. Without an id, a piece is an item of its own. */
function itemsOf(details: readonly ReasoningDetail[]): Map<string, ReasoningDetail[]> {
  const items = new Map<string, ReasoningDetail[]>();
  for (const [at, detail] of details.entries()) {
    const key = detail.id ?? `#${at}`;
    items.set(key, [...(items.get(key) ?? []), detail]);
  }
  return items;
}

/** Without its encrypted content an item is unreadable, because OpenAI stores nothing. */
function partsOfItem(pieces: readonly ReasoningDetail[]): ReturnType<Dialect["parts"]> {
  const encrypted = pieces.find(({ type, data }) => type === "reasoning.encrypted" && typeof data === "string");
  if (encrypted === undefined) return [];
  const texts = pieces.flatMap(({ summary, text }) => summary ?? text ?? []);
  const index = pieces[0]?.index ?? null;
  const openai = { itemId: encrypted.id ?? null, reasoningEncryptedContent: encrypted.data as string };
  return (texts.length === 0 ? [""] : texts).map((text) => ({
    part: { type: "reasoning", text, providerOptions: { openai } },
    index,
  }));
}

/** The fields of `forward`, which the SDK does not know. */
function allowedByOperator(request: ChatRequest, forward: readonly string[]): Body {
  return Object.fromEntries(forward.filter((field) => request[field] != null).map((field) => [field, request[field]]));
}
