import type { ChatRequest } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Body, type Dialect, effortOf, options } from "./language-model-dialect.ts";
import type { Provider } from "./models.types.ts";
import { checkedCounts } from "./usage-report.ts";

/** The smallest thinking budget that Anthropic accepts. */
const LEAST_THINKING_TOKENS = 1_024;
/** Anthropic publishes 159 to 530, by model (platform.claude.com, "Tool use pricing"). Newer models are not listed. */
const TOOL_PROMPT_TOKENS = 1_000;
/** Events without which a stream is no answer. */
const NEEDED_EVENTS = ["message_start", "message_delta", "error"];
/** Blocks that an answer is converted from. Others come of tools and betas that are not used here. */
const KNOWN_BLOCKS = ["text", "thinking", "redacted_thinking", "tool_use"];
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
  effort: effortOf,
  options(request) {
    const thinking = thinkingOf(request);
    const { effort } = fieldsOf(request.output_config);
    const { user_id } = fieldsOf(request.metadata);
    return options({
      thinking,
      // With its own setting for thinking, a request has its own effort or none.
      effort: thinking === undefined ? undefined : (effort ?? effortOf(request)),
      disableParallelToolUse: request.parallel_tool_calls === false ? true : undefined,
      cacheControl: request.cache_control,
      metadata: typeof user_id === "string" ? { userId: user_id } : undefined,
      anthropicBeta: editsOf(request) === null ? undefined : [CONTEXT_EDITING],
    });
  },
  countsSoFar(event) {
    const { type, message } = fieldsOf(event);
    const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, cache_creation } = fieldsOf(
      fieldsOf(message).usage,
    );
    if (type !== "message_start") return null;
    const [cached, written] = [Number(cache_read_input_tokens ?? 0), Number(cache_creation_input_tokens ?? 0)];
    return checkedCounts({
      input_tokens: Number(input_tokens) + cached + written,
      cached_input_tokens: cached,
      cache_write_tokens: written,
      cache_write_1h_tokens: fieldsOf(cache_creation).ephemeral_1h_input_tokens ?? 0,
      // The first event has no output yet.
      output_tokens: 0,
      reasoning_tokens: 0,
    });
  },
  // Anthropic adds types of events and blocks within a version, and clients have to ignore unknown ones.
  isIgnored(event) {
    const { type } = fieldsOf(event);
    return typeof type === "string" && !NEEDED_EVENTS.includes(type);
  },
  known(answer) {
    if (!Array.isArray(answer.content)) return answer;
    const blocks = answer.content.filter((block) => KNOWN_BLOCKS.includes(String(fieldsOf(block).type)));
    return { ...answer, content: blocks.map(({ citations: _, ...block }) => block) };
  },
  details({ text, metadata: { signature, redactedData } }) {
    if (typeof redactedData === "string") return [{ type: "reasoning.encrypted", data: redactedData }];
    return [{ type: "reasoning.text", text, ...(typeof signature === "string" ? { signature } : {}) }];
  },
  parts: (details) =>
    details.flatMap(({ type, text = "", signature, data, index = null }) => {
      const anthropic = type === "reasoning.encrypted" ? { redactedData: data } : { signature };
      // A block without its signature is invalid.
      if (typeof Object.values(anthropic)[0] !== "string") return [];
      return [{ part: { type: "reasoning", text, providerOptions: { anthropic } as never }, index }];
    }),
  adjust(body, { request, max_output_tokens }) {
    const edits = editsOf(request);
    const edited = edits === null ? body : { ...body, context_management: { edits } };
    const shown = request.thinking == null ? readable(edited) : edited;
    return withinCap(shown, { request, cap: max_output_tokens });
  },
};

/** `thinking` in the SDK's spelling. */
function thinkingOf({ thinking }: ChatRequest): Record<string, unknown> | undefined {
  const { type, budget_tokens, display } = fieldsOf(thinking);
  if (type === "enabled")
    return { type, ...(typeof budget_tokens === "number" ? { budgetTokens: budget_tokens } : {}) };
  if (type === "adaptive") return { type, ...(display === undefined ? {} : { display }) };
  return type === "disabled" ? { type } : undefined;
}

/** Edits that only clear the context. A compaction would write tokens that no hold covers, so it is dropped. */
function editsOf({ context_management }: ChatRequest): unknown[] | null {
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
