import type { ChatMessage, ContentPart, ToolCall } from "../../api/contract/completions.ts";
import type { InputItem, InputPart, ResponseRequest } from "../../api/contract/responses.ts";
import { errors } from "../../kernel/errors.ts";
import { type Envelope, isEmpty, type OpenEnvelope } from "../completions/reasoning-envelope.ts";
import { customArguments, functionName } from "./tool-names.ts";

/** Converts the input items of the Responses API to messages of a chat completion. Pure. */

interface CallItem {
  call_id: string;
  name: string;
  namespace?: string | null;
}

interface Conversation {
  messages: ChatMessage[];
  /** The caller's name of each message. */
  origins: string[];
}

/** Items of tools that OpenAI executes. The answers that follow them have what the model found. */
const OF_HOSTED_TOOLS: ReadonlySet<unknown> = new Set([
  "web_search_call",
  "file_search_call",
  "computer_call",
  "computer_call_output",
  "code_interpreter_call",
  "mcp_list_tools",
  "mcp_call",
  "mcp_approval_request",
  "mcp_approval_response",
  "tool_search_call",
  "tool_search_output",
  "program",
  "program_output",
]);
/** Of these, what the caller adds to go on. */
const ANSWERS_TO_HOSTED_TOOLS: ReadonlySet<unknown> = new Set(["computer_call_output", "mcp_approval_response"]);
/** No text follows an image, and models of other providers take none in an answer. */
const GENERATED_IMAGE: InputItem = { type: "message", role: "assistant", content: "[An image was generated here.]" };

/** An item of an earlier turn as a model gets it; null for one that has no effect here. */
export function replayedItem(item: InputItem): InputItem | null {
  if (OF_HOSTED_TOOLS.has(item.type)) return null;
  return item.type === "image_generation_call" ? GENERATED_IMAGE : item;
}

/**
 * `openEnvelope` opens the `encrypted_content` of reasoning items. The first `inherited` items are of the responses
 * before.
 */
export function toConversation(
  { input, instructions }: ResponseRequest,
  openEnvelope: OpenEnvelope,
  inherited: number,
): Conversation {
  const conversation: Conversation = { messages: [], origins: [] };
  const answers = createAnswers(conversation);
  const push = (message: ChatMessage, origin: string) => {
    conversation.messages.push(message);
    conversation.origins.push(origin);
  };
  if (instructions !== undefined) push({ role: "system", content: instructions }, "instructions");
  if (typeof input === "string") {
    push({ role: "user", content: input }, "input");
    return conversation;
  }
  rejectLostAnswer(input.slice(inherited));
  for (const [index, given] of input.entries()) {
    const item = replayedItem(given);
    if (item === null) continue;
    const origin = index < inherited ? "previous_response_id" : `input[${index - inherited}]`;
    const fields = item as Record<string, unknown>;
    switch (item.type ?? "message") {
      case "message": {
        const role = fields.role as ChatMessage["role"];
        const content = toContent(fields.content as string | InputPart[], origin);
        if (role === "assistant") answers.addText(content, origin);
        // An empty list has no effect, and other providers reject an empty text.
        else if (!Array.isArray(fields.content) || fields.content.length > 0) push({ role, content }, origin);
        break;
      }
      case "function_call":
        answers.addCall(item as CallItem, origin, String(fields.arguments));
        break;
      case "custom_tool_call":
        answers.addCall(item as CallItem, origin, customArguments(String(fields.input)));
        break;
      case "function_call_output":
      case "custom_tool_call_output": {
        const content = toContent(fields.output as string | InputPart[], origin);
        push({ role: "tool", tool_call_id: String(fields.call_id), content }, origin);
        break;
      }
      case "reasoning":
        // Reasoning that another service sealed says nothing to our providers.
        answers.addReasoning(
          openEnvelope(typeof fields.encrypted_content === "string" ? fields.encrypted_content : ""),
        );
        break;
      default:
        throw unsupportedItem(item, origin);
    }
  }
  if (conversation.origins.every((origin) => origin === "instructions")) {
    throw errors.invalidValue("input", "input has nothing for the model. Send a message.");
  }
  return conversation;
}

/** Without the last item, the model would answer the turn before once more. */
function rejectLostAnswer(input: readonly InputItem[]): void {
  const type = input.at(-1)?.type;
  if (!ANSWERS_TO_HOSTED_TOOLS.has(type)) return;
  throw errors.invalidValue(
    `input[${input.length - 1}]`,
    `input ends with ${type}, but no model here waits for it. Use function tools, or end with a message.`,
  );
}

/** Collects the items of one answer, which follow each other, in one message. */
function createAnswers({ messages, origins }: Conversation) {
  /** The reasoning before the next answer. */
  let pieces: Envelope[] = [];
  const calls_by_id = new Map<string, ToolCall>();

  function answerAt(origin: string, has_text: boolean): ChatMessage {
    const last = messages.at(-1);
    if (last?.role === "assistant" && pieces.length === 0 && !(has_text && last.content !== null)) return last;
    const message = { role: "assistant", content: null, ...joined(pieces) } as ChatMessage;
    pieces = [];
    messages.push(message);
    origins.push(origin);
    return message;
  }

  return {
    addReasoning(opened: Envelope | null): void {
      if (opened === null) return;
      const { calls, ...reasoning } = opened;
      // A call of an earlier answer gets its provider's signature back.
      for (const [id, extra_content] of Object.entries(calls ?? {})) {
        const call = calls_by_id.get(id);
        if (call !== undefined) Object.assign(call, { extra_content });
      }
      if (!isEmpty(reasoning)) pieces.push(reasoning);
    },
    addText(content: string | ContentPart[], origin: string): void {
      answerAt(origin, true).content = content;
    },
    addCall({ call_id, name, namespace }: CallItem, origin: string, call_arguments: string): void {
      const message = answerAt(origin, false);
      const called = { name: functionName(name, namespace), arguments: call_arguments };
      const call: ToolCall = { id: call_id, type: "function", function: called };
      calls_by_id.set(call_id, call);
      message.tool_calls ??= [];
      message.tool_calls.push(call);
    },
  };
}

/** The pieces of reasoning before one answer, as one. */
function joined(pieces: readonly Envelope[]): Envelope {
  if (pieces.length <= 1) return pieces[0] ?? {};
  return {
    ...pieces.at(-1),
    reasoning_content: pieces.map(({ reasoning_content }) => reasoning_content ?? "").join(""),
    reasoning_details: pieces.flatMap(({ reasoning_details }) => reasoning_details ?? []),
  };
}

function unsupportedItem({ type }: InputItem, origin: string): Error {
  if (type === "compaction") {
    throw errors.invalidValue(
      `${origin}.type`,
      `${origin} is a compaction, which only OpenAI can read. Send the messages themselves, or a summary as a message.`,
    );
  }
  const shown = JSON.stringify(String(type).slice(0, 40));
  return errors.invalidValue(
    `${origin}.type`,
    `${origin}.type ${shown} is not supported here. Send messages, calls of functions and custom tools, their outputs, and reasoning.`,
  );
}

function toContent(content: string | InputPart[], origin: string): string | ContentPart[] {
  if (typeof content === "string") return content;
  const parts = content.map((part, index) => toPart(part, `${origin}.content[${index}]`));
  // One text is the usual case, and some providers take only a string from system and tool messages.
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text ?? ""] : []));
  return texts.length === parts.length && parts.length <= 1 ? texts.join("") : parts;
}

function toPart(part: InputPart, param: string): ContentPart {
  const fields = part as Record<string, unknown>;
  switch (part.type) {
    case "input_text":
    case "output_text":
      return { type: "text", text: String(fields.text) };
    case "refusal":
      return { type: "refusal", refusal: fields.refusal };
    case "input_image": {
      const { image_url, detail } = fields;
      if (typeof image_url !== "string") {
        throw errors.invalidValue(`${param}.image_url`, "Send an image as image_url: a data: URL or an address.");
      }
      return {
        type: "image_url",
        image_url: { url: image_url, ...(detail == null ? {} : { detail: String(detail) }) },
      };
    }
    case "input_file": {
      const { file_data, filename } = fields;
      if (typeof file_data !== "string") {
        throw errors.invalidValue(`${param}.file_data`, "Send a file as file_data: a data: URL in base64.");
      }
      return { type: "file", file: { file_data, ...(typeof filename === "string" ? { filename } : {}) } };
    }
    case "input_audio":
      return { type: "input_audio", input_audio: fields.input_audio as { data: string; format: string } };
    default:
      throw errors.invalidValue(`${param}.type`, `Parts of type ${part.type.slice(0, 40)} are not supported.`);
  }
}
