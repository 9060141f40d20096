import type { AgentRecord } from "../../api/contract/agents.ts";
import type { ChatMessage, ChatRequest, FunctionTool } from "../../api/contract/completions.ts";
import type {
  CompletionCall,
  CompletionOutcome,
  CompletionStream,
  ResolveAgent,
} from "../../gateway/completions/completions.types.ts";
import type { AnswerPart } from "../../gateway/models/answer-events.ts";
import { forwardedRequest } from "../../gateway/models/request-fields.ts";
import { calledFunction } from "../../gateway/models/tool-calls.ts";
import { errors } from "../../kernel/errors.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { checkSchema } from "../definitions/agent-config.ts";
import type { Chat, Turn, TurnOptions, TurnRequest } from "./chat.service.ts";
import { chatAnswer, type FinishedTurn, inWords } from "./chat-answer.ts";
import { createChatEvents } from "./chat-events.ts";

const NO_PICTURES =
  "An agent takes no pictures, but your tool computer answers with screenshots. Name a model with supports.vision (GET /api/v1/models).";
const DONE = { done: true, value: undefined } as const;
/**
 * Fields that any provider supports are accepted and ignored. Fields that no provider supports without an extra price
 * are rejected.
 */
const AS_MODEL = {
  kind: "openai-compatible",
  forward: [],
  route: null,
  supports: { tools: false, streaming: true, json_schema: false, vision: true, files: false, audio: false },
} as const;

/**
 * An agent as a model, for `model: "agent/{id}"` in chat completions. Each call is a chat run of the agent, which makes
 * and pays for the model calls, so the completion itself costs nothing.
 */
export function createAgentModel(deps: {
  chat: Pick<Chat, "turn">;
  /** The user's agent; undefined: there is none. */
  find(user_id: string, id: string): Promise<Pick<AgentRecord, "client_tools" | "output_schema"> | undefined>;
  log: Log;
}): ResolveAgent {
  return async (id, { user_id }) => {
    const agent = await deps.find(user_id, id);
    if (agent === undefined) return null;
    const takes_tools = agent.client_tools === "pass";
    const turn = (call: CompletionCall, options: TurnOptions): Promise<Turn> => {
      if (takes_tools && call.needs_vision === true) throw errors.invalidValue("model", NO_PICTURES);
      const tools = call.request.tools?.length ?? 0;
      if (tools > 0 && !takes_tools) {
        const { request_id } = call;
        deps.log.info({ request_id, agent_id: id, tools }, "tools of the caller were dropped: the agent ignores them");
      }
      // The key's permissions were checked before the completion began.
      const caller = { ...call.caller, scopes: [] };
      return deps.chat.turn(
        caller,
        id,
        turnOf(call.request, { takes_tools, has_schema: agent.output_schema !== null }),
        options,
      );
    };
    return {
      async complete(call) {
        const { finished } = await turn(call, { request_id: call.request_id, signal: call.signal, onText: null });
        const answer = inWords(await finished);
        return { ...outcomeOf(answer), response: chatAnswer(answer) };
      },
      async stream(call) {
        const events = createChatEvents({ waits_in_words: true });
        const signal = AbortSignal.any([call.signal, events.left]);
        const begun = await turn(call, { request_id: call.request_id, signal, onText: events.onText });
        return completionStream(begun, await events.open(begun), events.leave);
      },
    };
  };
}

function completionStream(
  { finished }: Turn,
  parts: AsyncIterator<AnswerPart, undefined>,
  leave: () => void,
): CompletionStream {
  let outcome: ReturnType<CompletionStream["outcome"]> = null;
  const over = finished.then(
    (turn) => {
      outcome = outcomeOf(turn);
    },
    () => {},
  );
  return {
    next: () => parts.next(),
    async return() {
      leave();
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
 * The request as a turn of the agent. The agent's own sampling, caps and tools apply; the caller's tools are ignored,
 * unless the agent takes them.
 */
function turnOf(
  asked: ChatRequest,
  { takes_tools, has_schema }: { takes_tools: boolean; has_schema: boolean },
): TurnRequest {
  const request = forwardedRequest(asked, { ...AS_MODEL, id: asked.model });
  if ((request.n ?? 1) > 1) throw errors.invalidValue("n", "An agent gives one answer. Leave n out.");
  const turn = {
    stream: request.stream === true,
    on_disconnect: "cancel" as const,
    ...responseFormat(request, has_schema),
  };
  if (!takes_tools) return { ...turn, messages: request.messages.map(ownMessage) };
  return {
    ...turn,
    messages: asked.messages.map((message, index) => ({ ...ofTools(message), ...textMessage(message, index) })),
    ...clientTools(request),
  };
}

/** The shape of the answer that the caller asks for. Throws 400 if the agent has its own, or if it cannot be checked. */
function responseFormat({ response_format }: ChatRequest, has_schema: boolean): Pick<TurnRequest, "response_format"> {
  if (response_format === undefined || response_format.type === "text") return {};
  if (has_schema) {
    throw errors.invalidValue("response_format", "The agent has its own output_schema. Leave response_format out.");
  }
  if (response_format.type === "json_schema") {
    checkSchema(response_format.json_schema.schema ?? null, "response_format.json_schema.schema");
  }
  return { response_format };
}

/** The caller's tools and choice. With `none` no tool is offered. */
function clientTools({ tools = [], tool_choice }: ChatRequest): Pick<TurnRequest, "tools" | "tool_choice"> {
  const custom = tools.findIndex(({ type }) => type !== "function");
  if (custom !== -1) {
    throw errors.invalidValue(`tools[${custom}].type`, "An agent takes tools of type function. Describe it as one.");
  }
  if (tools.length === 0 || tool_choice === "none") return {};
  const choice = tool_choice === undefined || tool_choice === "auto" ? {} : { tool_choice };
  return { tools: tools as FunctionTool[], ...choice };
}

/** The fields of a message with calls, of their results, and of the reasoning that goes with them. */
function ofTools({ tool_calls, tool_call_id, reasoning_content, reasoning_details, model }: ChatMessage) {
  const calls = (tool_calls ?? []).map((call) => ({
    id: call.id,
    type: "function",
    function: calledFunction(call),
    ...(call.extra_content == null ? {} : { extra_content: call.extra_content }),
  }));
  const given = { tool_call_id, reasoning_content, reasoning_details, model };
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  } as Partial<ChatMessage>;
}

function ownMessage(message: ChatMessage, index: number): ChatMessage {
  if (message.role === "tool") {
    const told = "This agent calls only its own tools. Send no messages of tools, or set its client_tools to pass.";
    throw errors.invalidValue(`messages[${index}].role`, told);
  }
  return textMessage(message, index);
}

function textMessage({ role, content, tool_calls }: ChatMessage, index: number): ChatMessage {
  if (content == null && tool_calls != null && tool_calls.length > 0) return { role, content: null };
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  const read = parts.map((part, at) => {
    const param = `messages[${index}].content[${at}]`;
    const { type, text } = part;
    if (type === "text" && text !== undefined)
      return { type: "text", text: stored(text, `messages[${index}].content`) };
    if (type === "image_url" && role === "user") return part;
    throw errors.invalidValue(param, "An agent reads text and pictures. Send parts of type text or image_url.");
  });
  const has_pictures = read.some(({ type }) => type === "image_url");
  const content_of_turn = has_pictures ? read : read.map(({ text }) => text).join("\n");
  return { role: role === "developer" ? "system" : role, content: content_of_turn } as ChatMessage;
}

/** A turn is stored, and PostgreSQL stores neither. */
function stored(text: string, param: string): string {
  if (!text.includes("\0") && text.isWellFormed()) return text;
  throw errors.invalidValue(param, `${param} must be text without U+0000 and halves of surrogate pairs.`);
}
