import type {
  CompletionCall,
  CompletionOutcome,
  CompletionStream,
  ResolveAgent,
} from "../completions/completions.types.ts";
import type { AgentChat } from "../contract/agents.ts";
import type { ChatMessage, ChatRequest } from "../contract/completions.ts";
import { errors } from "../errors.ts";
import { forwardedRequest } from "../models/request-fields.ts";
import type { EventFeed } from "../platform/event-stream.ts";
import type { Chat, Turn, TurnOptions } from "./chat.service.ts";
import { chatAnswer, type FinishedTurn } from "./chat-answer.ts";
import { createChatEvents } from "./chat-events.ts";

const DONE = { done: true, value: undefined } as const;
/**
 * Fields that any provider supports are accepted and ignored. Fields that no provider supports without an extra price
 * are rejected.
 */
const AS_MODEL = {
  kind: "openai-compatible",
  forward: [],
  supports: { tools: false, streaming: true, json_schema: false, vision: false, files: false, audio: false },
} as const;

/**
 * An agent as a model, for `model: "agent/{id}"` in chat completions. Each call is a chat run of the agent, which makes
 * and pays for the model calls, so the completion itself costs nothing.
 */
export function createAgentModel(deps: {
  chat: Pick<Chat, "turn">;
  /** Whether this user has such an agent. */
  exists(user_id: string, id: string): Promise<boolean>;
}): ResolveAgent {
  return async (id, { user_id }) => {
    if (!(await deps.exists(user_id, id))) return null;
    const turn = (call: CompletionCall, options: TurnOptions): Promise<Turn> => {
      // The key's permissions were checked before the completion began.
      const caller = { ...call.caller, scopes: [] };
      return deps.chat.turn(caller, id, chatOf(call.request), options);
    };
    return {
      async complete(call) {
        const { finished } = await turn(call, { request_id: call.request_id, signal: call.signal, onText: null });
        const answer = await finished;
        return { ...outcomeOf(answer), response: chatAnswer(answer) };
      },
      async stream(call) {
        const events = createChatEvents(call.request_id, call.request.stream_options?.include_usage === true);
        const signal = AbortSignal.any([call.signal, events.left]);
        const begun = await turn(call, { request_id: call.request_id, signal, onText: events.onText });
        return completionStream(begun, await events.open(begun));
      },
    };
  };
}

function completionStream({ finished }: Turn, events: EventFeed): CompletionStream {
  let outcome: ReturnType<CompletionStream["outcome"]> = null;
  const over = finished.then(
    (turn) => {
      outcome = outcomeOf(turn);
    },
    () => {},
  );
  return {
    next: events.next,
    async return() {
      events.leave();
      await over;
      return DONE;
    },
    outcome: () => outcome,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function outcomeOf(turn: FinishedTurn): CompletionOutcome {
  const { model, usage, routing } = chatAnswer(turn);
  return { model_id: model, usage, settlement: "settled", complete: true, ...(routing && { routing }) };
}

/**
 * The request as a turn of the agent. The agent's own sampling, caps and tools apply; the caller's tools are ignored.
 * Fields that would change the shape of the answer are rejected.
 */
function chatOf(asked: ChatRequest): AgentChat {
  const request = forwardedRequest(asked, { ...AS_MODEL, id: asked.model });
  if ((request.n ?? 1) > 1) throw errors.invalidValue("n", "An agent gives one answer. Leave n out.");
  if (request.response_format !== undefined && request.response_format.type !== "text") {
    throw errors.invalidValue("response_format", "An agent answers in text. Leave response_format out.");
  }
  return { messages: request.messages.map(chatMessage), stream: request.stream === true, on_disconnect: "cancel" };
}

function chatMessage({ role, content }: ChatMessage, index: number): AgentChat["messages"][number] {
  if (role === "tool") {
    throw errors.invalidValue(`messages[${index}].role`, "An agent calls its own tools. Send no messages of tools.");
  }
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  const texts = parts.map(({ type, text }, at) => {
    if (type === "text" && text !== undefined) return stored(text, `messages[${index}].content`);
    throw errors.invalidValue(
      `messages[${index}].content[${at}]`,
      "An agent reads text. Send parts of type text only.",
    );
  });
  return { role: role === "developer" ? "system" : role, content: texts.join("\n") };
}

/** A turn is stored, and PostgreSQL stores neither. */
function stored(text: string, param: string): string {
  if (!text.includes("\0") && text.isWellFormed()) return text;
  throw errors.invalidValue(param, `${param} must be text without U+0000 and halves of surrogate pairs.`);
}
