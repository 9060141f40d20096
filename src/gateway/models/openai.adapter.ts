import type { ChatRequest, ReasoningDetail } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Body, type Dialect, type DialectReader, options, toEffort } from "./language-model-dialect.ts";
import type { Provider } from "./models.types.ts";
import type { DetailPiece, NativeAnswer } from "./native-answer.ts";
import { WITHOUT_REASONING } from "./reasoning.ts";
import { countsOfUsage } from "./usage-report.ts";

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
    const effort = toEffort(request);
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
  reader: responseReader,
  readWhole(body, answer) {
    for (const [place, item] of (Array.isArray(body.output) ? body.output : []).entries()) {
      readItem(fieldsOf(item), place, answer);
    }
    finish(body, answer);
  },
  parts: (details) => [...itemsOf(details).values()].flatMap(partsOfItem),
  adjust: (body, { request, model }) => ({ ...allowedByOperator(request, model.forward), ...body }),
};

/** Reads the events of a response. Items, parts and events of other types come of tools that are not used here. */
function responseReader(answer: NativeAnswer): DialectReader {
  /** The calls whose arguments have begun. */
  const begun = new Set<unknown>();
  const places = new Map<unknown, number>();

  function begin({ type, call_id, name }: Body, place: unknown): void {
    if (type === "message") answer.block();
    if (type === "reasoning") places.set(place, answer.block());
    if (type !== "function_call" && type !== "custom_tool_call") return;
    answer.call(place, { id: String(call_id ?? ""), name: String(name), text: "" });
  }

  function end(item: Body, place: unknown): void {
    if (item.type === "reasoning") answer.details(reasoningPieces(item), places.get(place) ?? 0);
    if (begun.has(place)) return;
    if (item.type === "function_call") answer.arguments(place, String(item.arguments ?? ""));
    if (item.type === "custom_tool_call") answer.arguments(place, String(item.input ?? ""));
  }

  return {
    read({ type, item, output_index: place, delta, response }) {
      switch (type) {
        case "response.created":
        case "response.in_progress":
          return answer.start();
        case "response.output_item.added":
          return begin(fieldsOf(item), place);
        case "response.output_item.done":
          return end(fieldsOf(item), place);
        case "response.output_text.delta":
          return answer.text(String(delta));
        case "response.refusal.delta":
          return answer.refusal(String(delta));
        case "response.reasoning_summary_text.delta":
          return answer.reasoning(String(delta));
        case "response.function_call_arguments.delta":
        case "response.custom_tool_call_input.delta":
          begun.add(place);
          return answer.arguments(place, String(delta));
        case "response.completed":
        case "response.incomplete":
        case "response.failed":
          return finish(fieldsOf(response), answer);
      }
    },
    isLast: ({ type }) => type === "response.completed" || type === "response.incomplete",
    close: () => {},
  };
}

/** An item of a whole answer. */
function readItem(item: Body, key: number, answer: NativeAnswer): void {
  const { type, content, call_id, name, arguments: given, input } = item;
  if (type === "reasoning") {
    const place = answer.block();
    for (const { summary } of reasoningPieces(item)) answer.reasoning(summary ?? "");
    answer.details(reasoningPieces(item), place);
  }
  if (type === "message") {
    answer.block();
    for (const part of (Array.isArray(content) ? content : []).map(fieldsOf)) {
      if (part.type === "output_text") answer.text(String(part.text));
      if (part.type === "refusal") answer.refusal(String(part.refusal));
    }
  }
  const id = String(call_id ?? "");
  if (type === "function_call") answer.call(key, { id, name: String(name), text: String(given ?? "") });
  if (type === "custom_tool_call") {
    const text = String(input ?? "");
    // A custom tool that was sent as one of the caller's own is a function for chat completions.
    answer.call(key, { id, name: String(name), text: answer.isCustom(String(name)) ? text : JSON.stringify(text) });
  }
}

function reasoningPieces({ id: given, summary, encrypted_content: data }: Body): DetailPiece[] {
  const id = typeof given === "string" ? given : null;
  const texts = (Array.isArray(summary) ? summary : []).map((part) => String(fieldsOf(part).text ?? ""));
  const pieces: DetailPiece[] = texts.map((text) => ({ type: "reasoning.summary", summary: text, id }));
  return typeof data === "string" ? [...pieces, { type: "reasoning.encrypted", data, id }] : pieces;
}

/** The end of a response: how it ended, and its usage. */
function finish({ status, incomplete_details, usage }: Body, answer: NativeAnswer): void {
  answer.report(countsOfUsage(usage), true);
  const { reason } = fieldsOf(incomplete_details);
  if (status === "failed" || status === "cancelled") answer.finish("error");
  else if (typeof reason === "string") answer.finish(reason);
  else if (status === "incomplete") answer.finish("length");
  else if (answer.hasCall()) answer.finish("tool_calls");
  else answer.finish(answer.hasRefusal() ? "content_filter" : "stop");
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
