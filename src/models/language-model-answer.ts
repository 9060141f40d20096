import type { ChatResponse, FinishReason, ToolCall } from "../contract/completions.ts";
import type { LanguageModel } from "./language-model-prompt.ts";
import type { Counts } from "./models.types.ts";
import { checkedCounts } from "./token-count.ts";

/** Converts answers of the AI SDK's language models (their specification v4) to OpenAI's shape. Pure. */

type Result = Awaited<ReturnType<LanguageModel["doGenerate"]>>;
export type StreamPart =
  Awaited<ReturnType<LanguageModel["doStream"]>>["stream"] extends ReadableStream<infer Part> ? Part : never;

const FINISH: Record<Result["finishReason"]["unified"], FinishReason> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
  error: "stop",
  interrupted: "stop",
  other: "stop",
};

/** A whole answer as a chat.completion, without usage. */
export function responseOf(result: Result, identity: { id: string; created: number; model: string }): ChatResponse {
  let content = "";
  let reasoning = "";
  const tool_calls: ToolCall[] = [];
  for (const part of result.content) {
    if (part.type === "text") content += part.text;
    else if (part.type === "reasoning") reasoning += part.text;
    else if (part.type === "tool-call" && part.providerExecuted !== true) {
      const { toolCallId, toolName, input } = part;
      tool_calls.push({ id: toolCallId, type: "function", function: { name: toolName, arguments: input } });
    }
  }
  const message = {
    role: "assistant" as const,
    content: content === "" && tool_calls.length > 0 ? null : content,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: FINISH[result.finishReason.unified] }];
  return { ...identity, object: "chat.completion", choices };
}

/** The counts of an answer, or null if they are missing or invalid. */
export function countsOfResult(usage: Result["usage"]): Counts | null {
  return checkedCounts({
    input_tokens: usage.inputTokens.total,
    cached_input_tokens: usage.inputTokens.cacheRead ?? 0,
    cache_write_tokens: usage.inputTokens.cacheWrite ?? 0,
    cache_write_1h_tokens: hourlyWrites(usage.raw),
    output_tokens: usage.outputTokens.total,
    reasoning_tokens: usage.outputTokens.reasoning ?? 0,
  });
}

/** Anthropic reports its cache writes by time to live. The SDK keeps that in the raw report only. */
function hourlyWrites(raw: Result["usage"]["raw"]): unknown {
  const written = raw?.cache_creation;
  return typeof written === "object" && written !== null && "ephemeral_1h_input_tokens" in written
    ? written.ephemeral_1h_input_tokens
    : 0;
}

/** A choice of a streamed chunk. */
export interface ChunkChoice {
  index: 0;
  delta: Record<string, unknown>;
  finish_reason: FinishReason | null;
}

/** Converts parts to choices of chunks and remembers the index of each tool call. Returns null for hidden parts. */
export function createChoiceMapper(): (part: StreamPart) => ChunkChoice | null {
  const tool_indexes = new Map<string, number>();
  const choice = (delta: Record<string, unknown>, finish_reason: FinishReason | null = null): ChunkChoice => ({
    index: 0,
    delta,
    finish_reason,
  });
  const opened = (id: string, name: string, input: string): ChunkChoice => {
    const index = tool_indexes.size;
    tool_indexes.set(id, index);
    return choice({ tool_calls: [{ index, id, type: "function", function: { name, arguments: input } }] });
  };
  return (part) => {
    switch (part.type) {
      case "stream-start":
        return choice({ role: "assistant", content: "" });
      case "text-delta":
        return choice({ content: part.delta });
      case "reasoning-delta":
        return choice({ reasoning_content: part.delta });
      case "tool-input-start":
        return part.providerExecuted === true ? null : opened(part.id, part.toolName, "");
      case "tool-input-delta": {
        const index = tool_indexes.get(part.id);
        return index === undefined ? null : choice({ tool_calls: [{ index, function: { arguments: part.delta } }] });
      }
      case "tool-call":
        // The stream has already sent its input, unless the provider gave it in one piece.
        if (part.providerExecuted === true || tool_indexes.has(part.toolCallId)) return null;
        return opened(part.toolCallId, part.toolName, part.input);
      case "finish":
        return choice({}, FINISH[part.finishReason.unified]);
      default:
        return null;
    }
  };
}
