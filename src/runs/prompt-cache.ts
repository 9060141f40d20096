import type { ChatMessage, ChatRequest } from "../contract/completions.ts";

const EPHEMERAL = { type: "ephemeral" as const };

/**
 * A run's request with hints for the provider's prompt cache, where another call with the same beginning is likely: the
 * model may call tools, or the thread has a next turn. Without one, writing the cache would only cost more. Pure.
 *
 * Claude reads its cache at the marks: the tools, the system prompt, the end of the call before and the end of this
 * call. OpenAI finds a prefix by itself; the key sends the calls of an agent to the same cache. Others ignore the hints.
 */
export function cacheable(
  request: ChatRequest,
  { agent_id, is_in_thread }: { agent_id: string; is_in_thread: boolean },
): ChatRequest {
  const { tools = [], messages } = request;
  if (tools.length === 0 && !is_in_thread) return request;
  const last_answer = messages.findLastIndex(({ role }) => role === "assistant");
  const marked = new Set([messages.findLastIndex(isSystem), last_answer - 1, messages.length - 1]);
  return {
    ...request,
    prompt_cache_key: agent_id,
    messages: messages.map((message, at) => (marked.has(at) ? { ...message, cache_control: EPHEMERAL } : message)),
    ...(tools.length === 0
      ? {}
      : { tools: tools.map((tool, at) => (at === tools.length - 1 ? { ...tool, cache_control: EPHEMERAL } : tool)) }),
  };
}

function isSystem({ role }: ChatMessage): boolean {
  return role === "system";
}
