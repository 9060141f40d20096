import type { ChatMessage, ContentPart, ReasoningDetail, ToolCall } from "../../api/contract/completions.ts";
import type { Block, MessagesRequest, ResultPart } from "../../api/contract/messages.ts";
import { errors } from "../../kernel/errors.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { OpenEnvelope } from "../completions/reasoning-envelope.ts";

/** Converts messages of Anthropic's API to messages of a chat completion. Pure. */

interface Conversation {
  messages: ChatMessage[];
  /** The caller's name of each message. */
  origins: string[];
  /** The caller's indexes of a user message's parts. */
  parts: (number[] | undefined)[];
}
type Push = (message: ChatMessage, origin: string, parts?: number[]) => void;
type Fields = Record<string, unknown>;

const OF_HOSTED_TOOLS = /^(?:server_tool_use|mcp_tool_use|.+_tool_result)$/;

/** Whether Anthropic executed the tool of a block. The text that follows it has what the model found. */
export function isOfHostedTool({ type }: Block): boolean {
  return OF_HOSTED_TOOLS.test(type);
}

/** `openEnvelope` opens the signatures of thinking blocks. */
export function toConversation({ system, messages }: MessagesRequest, openEnvelope: OpenEnvelope): Conversation {
  const conversation: Conversation = { messages: [], origins: [], parts: [] };
  const push: Push = (message, origin, parts) => {
    conversation.messages.push(message);
    conversation.origins.push(origin);
    conversation.parts.push(parts);
  };
  if (system !== undefined && system.length > 0) {
    push({ role: "system", content: toContent(system as string | Block[], "system") }, "system");
  }
  for (const [index, { role, content }] of messages.entries()) {
    const origin = `messages[${index}]`;
    if (typeof content === "string") push({ role, content }, origin);
    else if (role !== "assistant") pushUser(content as Block[], { role, origin }, push);
    else if (!content.every(isOfHostedTool)) push(toAnswer(content, origin, openEnvelope), origin);
  }
  if (conversation.origins.every((origin) => origin === "system")) {
    throw errors.invalidValue("messages", "messages have no content. Send a message with text or blocks.");
  }
  return conversation;
}

/** Results of tools are messages of their own, before the rest of the user's message. */
function pushUser(blocks: Block[], { role, origin }: { role: "user" | "system"; origin: string }, push: Push): void {
  const rest: ContentPart[] = [];
  const places: number[] = [];
  for (const [at, block] of blocks.entries()) {
    if (isOfHostedTool(block)) continue;
    const param = `${origin}.content[${at}]`;
    if (block.type !== "tool_result") {
      rest.push(toPart(block, param));
      places.push(at);
      continue;
    }
    const { tool_use_id, content, is_error, cache_control } = block as Fields;
    const result = toContent((content ?? "") as string | ResultPart[], param);
    const shown = is_error === true ? markedAsError(result) : result;
    const message = { role: "tool" as const, tool_call_id: String(tool_use_id), content: shown };
    push({ ...message, ...hintOf(cache_control) } as ChatMessage, param);
  }
  if (rest.length > 0) push({ role, content: simplified(rest) }, origin, places);
}

/** The mark of a list is last, so that a fault in a part is reported at the part's own place. */
function markedAsError(result: string | ContentPart[]): string | ContentPart[] {
  return typeof result === "string" ? `Error: ${result}` : [...result, { type: "text", text: "Error" }];
}

function toAnswer(blocks: readonly Block[], origin: string, openEnvelope: OpenEnvelope): ChatMessage {
  const parts: ContentPart[] = [];
  const calls: ToolCall[] = [];
  const reasoning: { text: string; details: ReasoningDetail[]; model: string | null } = {
    text: "",
    details: [],
    model: null,
  };
  const signed: Record<string, unknown> = {};
  for (const [at, block] of blocks.entries()) {
    if (isOfHostedTool(block)) continue;
    const fields = block as Fields;
    if (block.type === "tool_use") {
      const called = { name: String(fields.name), arguments: JSON.stringify(fields.input ?? {}) };
      calls.push({ id: String(fields.id), type: "function", function: called });
    } else if (block.type === "thinking" || block.type === "redacted_thinking") {
      const sealed = String(fields.signature ?? fields.data ?? "");
      const opened = openEnvelope(sealed);
      if (opened === null) reasoning.details.push(anthropicDetail(fields));
      else {
        reasoning.text += opened.reasoning_content ?? "";
        reasoning.details.push(...((opened.reasoning_details ?? []) as ReasoningDetail[]));
        reasoning.model = opened.model ?? reasoning.model;
        Object.assign(signed, opened.calls);
      }
    } else parts.push(toPart(block, `${origin}.content[${at}]`));
  }
  for (const call of calls) if (signed[call.id] !== undefined) Object.assign(call, { extra_content: signed[call.id] });
  return {
    role: "assistant",
    content: parts.length === 0 ? null : simplified(parts),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(reasoning.text === "" ? {} : { reasoning_content: reasoning.text }),
    ...(reasoning.details.length === 0 ? {} : { reasoning_details: reasoning.details }),
    ...(reasoning.model === null ? {} : { model: reasoning.model }),
  };
}

/** A thinking block with Anthropic's own signature. */
function anthropicDetail({ type, thinking, signature, data }: Fields): ReasoningDetail {
  const format = "anthropic-claude-v1";
  if (type === "redacted_thinking") return { type: "reasoning.encrypted", data: String(data), format };
  return { type: "reasoning.text", text: String(thinking), signature: String(signature ?? ""), format };
}

function toContent(content: string | readonly (Block | ResultPart)[], param: string): string | ContentPart[] {
  if (typeof content === "string") return content;
  return simplified(
    content.map((block, at) => toPart(block, param === "system" ? `system[${at}]` : `${param}.content[${at}]`)),
  );
}

/** One plain text as text, which every provider takes in every message. */
function simplified(parts: ContentPart[]): string | ContentPart[] {
  const [only] = parts;
  if (only === undefined) return "";
  const is_plain = parts.length === 1 && only.type === "text" && only.cache_control === undefined;
  return is_plain ? (only.text ?? "") : parts;
}

function toPart(block: Block | ResultPart, param: string): ContentPart {
  const fields = block as Fields;
  const hint = hintOf(fields.cache_control);
  const { type, media_type, data, url, content } = (fields.source ?? {}) as Fields;
  switch (block.type) {
    case "text":
      return { type: "text", text: String(fields.text), ...hint };
    case "image":
      if (type === "url") return { type: "image_url", image_url: { url: String(url) }, ...hint };
      if (type === "base64") {
        return { type: "image_url", image_url: { url: `data:${String(media_type)};base64,${String(data)}` }, ...hint };
      }
      break;
    case "document":
      if (type === "text") return { type: "text", text: String(data), ...hint };
      if (type === "content" && isOfTexts(content)) return { type: "text", text: extractText(content), ...hint };
      if (type === "base64") {
        const file_data = `data:${String(media_type)};base64,${String(data)}`;
        const filename = typeof fields.title === "string" ? fields.title : "document.pdf";
        return { type: "file", file: { file_data, filename }, ...hint };
      }
      break;
    case "search_result": {
      const texts = Array.isArray(fields.content) ? fields.content.map((each) => fieldsOf(each).text) : [];
      const lines = [fields.title, fields.source, ...texts].filter((line) => typeof line === "string");
      return { type: "text", text: lines.join("\n"), ...hint };
    }
    case "tool_reference":
      if (typeof fields.tool_name !== "string") throw errors.missingField(`${param}.tool_name`);
      return { type: "text", text: `The tool ${fields.tool_name} can be called now.`, ...hint };
    default:
      throw errors.invalidValue(
        `${param}.type`,
        `${param}.type ${JSON.stringify(String(block.type).slice(0, 40))} is not supported here. Send text, images, documents, tool_use and tool_result.`,
      );
  }
  throw errors.invalidValue(
    `${param}.source.type`,
    `${param}.source.type must be base64, or url (images), or text or content with texts (documents). Files are not stored here.`,
  );
}

function isOfTexts(content: unknown): content is string | { text: string }[] {
  return (
    typeof content === "string" || (Array.isArray(content) && content.every((each) => fieldsOf(each).type === "text"))
  );
}

function extractText(content: string | { text: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => String(text)).join("\n");
}

function hintOf(cache_control: unknown): Pick<ContentPart, "cache_control"> {
  return cache_control == null ? {} : { cache_control: cache_control as NonNullable<ContentPart["cache_control"]> };
}
