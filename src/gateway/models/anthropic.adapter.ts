import type { ChatRequest } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Body, type Dialect, type DialectReader, options, toEffort } from "./language-model-dialect.ts";
import type { Provider } from "./models.types.ts";
import type { NativeAnswer } from "./native-answer.ts";
import { checkedCounts } from "./usage-report.ts";

/** The smallest thinking budget that Anthropic accepts. */
const LEAST_THINKING_TOKENS = 1_024;
/** Anthropic publishes 159 to 530, by model (platform.claude.com, "Tool use pricing"). Newer models are not listed. */
const TOOL_PROMPT_TOKENS = 1_000;
/** The tool that the SDK makes of a schema, for models without schemas. */
const JSON_TOOL = "json";
const CONTEXT_EDITING = "context-management-2025-06-27";

/** Anthropic's Messages API. */
export function createAnthropicProvider(settings: { base_url: string | null; api_key: string }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(ANTHROPIC, settings, async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return (provider_model, fetch) => {
      const connection = { apiKey: api_key, fetch, ...(base_url === null ? {} : { baseURL: base_url }) };
      return createAnthropic(connection).languageModel(provider_model);
    };
  });
}

const ANTHROPIC: Dialect = {
  name: "anthropic",
  format: "anthropic-claude-v1",
  hoists_system: false,
  takes_custom_tools: false,
  tool_prompt_tokens: TOOL_PROMPT_TOKENS,
  settings: { temperature: "temperature", top_p: "top_p", top_k: "top_k" },
  settings_in: null,
  effort: toEffort,
  options(request) {
    const thinking = toThinking(request);
    const { effort } = fieldsOf(request.output_config);
    const { user_id } = fieldsOf(request.metadata);
    return options({
      thinking,
      // With its own setting for thinking, a request has its own effort or none.
      effort: thinking === undefined ? undefined : (effort ?? toEffort(request)),
      disableParallelToolUse: request.parallel_tool_calls === false ? true : undefined,
      cacheControl: request.cache_control,
      metadata: typeof user_id === "string" ? { userId: user_id } : undefined,
      anthropicBeta: toEdits(request) === null ? undefined : [CONTEXT_EDITING],
    });
  },
  reader: messageReader,
  readWhole(body, answer) {
    const { content, usage, stop_reason, stop_sequence } = body;
    const reader = messageReader(answer);
    reader.read({ type: "message_start", message: { usage } });
    for (const [index, content_block] of (Array.isArray(content) ? content : []).entries()) {
      reader.read({ type: "content_block_start", index, content_block });
      reader.read({ type: "content_block_stop", index });
    }
    reader.read({ type: "message_delta", delta: { stop_reason, stop_sequence }, usage });
    reader.close();
  },
  parts: (details) =>
    details.flatMap(({ type, text = "", signature, data, index = null }) => {
      const anthropic = type === "reasoning.encrypted" ? { redactedData: data } : { signature };
      // A block without its signature is invalid.
      if (typeof Object.values(anthropic)[0] !== "string") return [];
      return [{ part: { type: "reasoning", text, providerOptions: { anthropic } as never }, index }];
    }),
  adjust(body, { request, max_output_tokens }) {
    const edits = toEdits(request);
    const edited = edits === null ? body : { ...body, context_management: { edits } };
    const shown = request.thinking == null ? readable(edited) : edited;
    return withinCap(shown, { request, cap: max_output_tokens });
  },
};

/** A block that is being generated. */
interface OpenBlock {
  type: unknown;
  place: number;
  text: string;
  signature: unknown;
  data: unknown;
}

/**
 * Reads the events of a message. Anthropic adds types of events, blocks and deltas within a version, and clients have to
 * ignore unknown ones.
 */
function messageReader(answer: NativeAnswer): DialectReader {
  const { response_format, tools = [] } = answer.request.request;
  const is_own = tools.some((tool) => tool.type === "function" && tool.function.name === JSON_TOOL);
  const has_json_tool = response_format?.type === "json_schema" && !is_own;
  const open = new Map<unknown, OpenBlock>();
  let usage: Body = {};
  /** The text beside a call of the JSON tool, which is not part of the answer. */
  let aside = "";
  let is_json = false;

  function begin(index: unknown, { type, id, name, text, thinking, signature, data, input }: Body): void {
    switch (type) {
      case "text":
        open.set(index, { type, place: answer.block(), text: "", signature, data });
        addText(String(text ?? ""));
        break;
      case "thinking":
        open.set(index, { type, place: answer.block(), text: String(thinking ?? ""), signature, data });
        answer.reasoning(String(thinking ?? ""));
        break;
      case "redacted_thinking":
        answer.details([{ type: "reasoning.encrypted", data: String(data) }], answer.block());
        break;
      case "tool_use": {
        const given = Object.keys(fieldsOf(input)).length === 0 ? "" : JSON.stringify(input);
        if (has_json_tool && name === JSON_TOOL) {
          is_json = true;
          open.set(index, { type: JSON_TOOL, place: answer.block(), text: "", signature, data });
          answer.text(given);
        } else {
          open.set(index, { type, place: 0, text: given, signature, data });
          answer.call(index, { id: String(id ?? ""), name: String(name), text: given });
        }
      }
    }
  }

  function addText(text: string): void {
    if (has_json_tool) aside += text;
    else answer.text(text);
  }

  function addDelta(index: unknown, { type, text, thinking, signature, partial_json }: Body): void {
    const block = open.get(index);
    switch (type) {
      case "text_delta":
        addText(String(text));
        break;
      case "thinking_delta":
        if (block !== undefined) block.text += String(thinking);
        answer.reasoning(String(thinking));
        break;
      case "signature_delta":
        if (block !== undefined) block.signature = signature;
        break;
      case "input_json_delta":
        if (block !== undefined) block.text += String(partial_json);
        if (block?.type === JSON_TOOL) answer.text(String(partial_json));
        else answer.arguments(index, String(partial_json));
    }
  }

  function end(index: unknown): void {
    const block = open.get(index);
    open.delete(index);
    if (block?.type === "tool_use" && block.text === "") answer.arguments(index, "{}");
    if (block?.type !== "thinking") return;
    const signed = typeof block.signature === "string" ? { signature: block.signature } : {};
    answer.details([{ type: "reasoning.text", text: block.text, ...signed }], block.place);
  }

  return {
    read(event) {
      const { type, index, message, content_block, delta } = event;
      switch (type) {
        case "message_start":
          answer.start();
          usage = fieldsOf(fieldsOf(message).usage);
          // The first event has no output yet.
          return answer.report(toCounts({ ...usage, output_tokens: 0, output_tokens_details: null }), false);
        case "content_block_start":
          return begin(index, fieldsOf(content_block));
        case "content_block_delta":
          return addDelta(index, fieldsOf(delta));
        case "content_block_stop":
          return end(index);
        case "message_delta": {
          const { stop_reason, stop_sequence } = fieldsOf(delta);
          const later = Object.entries(fieldsOf(event.usage)).filter(([, value]) => value != null);
          usage = { ...usage, ...Object.fromEntries(later) };
          answer.report(toCounts(usage), true);
          answer.finish(is_json && stop_reason === "tool_use" ? "end_turn" : stop_reason, stop_sequence);
        }
      }
    },
    isLast: ({ type }) => type === "message_stop",
    close() {
      if (!is_json) answer.text(aside);
    },
  };
}

/** Anthropic reports cached and written input apart. */
function toCounts(usage: Body) {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, cache_creation, output_tokens } = usage;
  const [cached, written] = [Number(cache_read_input_tokens ?? 0), Number(cache_creation_input_tokens ?? 0)];
  return checkedCounts({
    input_tokens: Number(input_tokens) + cached + written,
    cached_input_tokens: cached,
    cache_write_tokens: written,
    cache_write_1h_tokens: fieldsOf(cache_creation).ephemeral_1h_input_tokens ?? 0,
    output_tokens,
    reasoning_tokens: fieldsOf(usage.output_tokens_details).thinking_tokens ?? 0,
  });
}

/** `thinking` in the SDK's spelling. */
function toThinking({ thinking }: ChatRequest): Record<string, unknown> | undefined {
  const { type, budget_tokens, display } = fieldsOf(thinking);
  if (type === "enabled")
    return { type, ...(typeof budget_tokens === "number" ? { budgetTokens: budget_tokens } : {}) };
  if (type === "adaptive") return { type, ...(display === undefined ? {} : { display }) };
  return type === "disabled" ? { type } : undefined;
}

/** Edits that only clear the context. A compaction would write tokens that no hold covers, so it is dropped. */
function toEdits({ context_management }: ChatRequest): unknown[] | null {
  const { edits } = fieldsOf(context_management);
  if (!Array.isArray(edits) || edits.length === 0) return null;
  return edits.every((edit) => String(fieldsOf(edit).type).startsWith("clear_")) ? edits : null;
}

/** Asks for a readable summary where the model's default is to omit it. */
function readable(body: Body): Body {
  const thinking = fieldsOf(body.thinking);
  return thinking.type === "adaptive" && thinking.display === undefined
    ? { ...body, thinking: { ...thinking, display: "summarized" } }
    : body;
}

/**
 * Keeps the thinking budget within the output cap. The AI SDK adds the budget to the cap: tens of thousands of output
 * tokens without a hold. Budgeted thinking is off after a tool call whose reasoning was dropped, because Anthropic
 * rejects the request otherwise.
 */
function withinCap(body: Body, { request, cap }: { request: ChatRequest; cap: number }): Body {
  const { thinking, ...rest } = body;
  if (fieldsOf(thinking).type !== "enabled") return body;
  const own = Number(fieldsOf(request.thinking).budget_tokens ?? Infinity);
  const budget_tokens = own < cap ? own : Math.min(Number(fieldsOf(thinking).budget_tokens ?? 0), Math.floor(cap / 2));
  const thinks = budget_tokens >= LEAST_THINKING_TOKENS && !isWithoutThought(body.messages);
  return { ...rest, max_tokens: cap, ...(thinks ? { thinking: { ...(thinking as object), budget_tokens } } : {}) };
}

/** Whether the last answer called tools and has lost its thinking. */
function isWithoutThought(messages: unknown): boolean {
  const answers = (Array.isArray(messages) ? messages : []).filter((message) => message.role === "assistant");
  const blocks: unknown[] = answers.at(-1)?.content ?? [];
  const types = (Array.isArray(blocks) ? blocks : []).map((block) => fieldsOf(block).type);
  return types.includes("tool_use") && !String(types[0]).endsWith("thinking");
}
