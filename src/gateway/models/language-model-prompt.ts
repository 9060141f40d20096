import type {
  AnyToolCall,
  CacheControl,
  ChatMessage,
  ChatRequest,
  ContentPart,
  ResponseFormat,
  ToolChoice,
} from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { isJsonObject, jsonOrUndefined } from "../../platform/lib/json.ts";
import { parseDataUrl } from "../../platform/lib/media-type.ts";
import { requestDialect } from "./dialects.ts";
import { gatewayErrors } from "./errors.ts";
import type { AssistantPart, Dialect, LanguageModelCall, PromptMessage } from "./language-model-dialect.ts";
import type { Model } from "./models.types.ts";
import { isBlank, NO_OUTPUT, NO_TEXT } from "./native-blocks.ts";
import { traitsOf } from "./providers.ts";
import { calledFunction } from "./tool-calls.ts";

/** Converts OpenAI's request to a call of the AI SDK's language models (their specification v4). Pure. */

type Prompt = LanguageModelCall["prompt"];
type UserPart = Extract<PromptMessage, { role: "user" }>["content"][number];
type ResultPart = Extract<PromptMessage, { role: "tool" }>["content"][number];
type Output = Extract<ResultPart, { type: "tool-result" }>["output"];
type Tools = NonNullable<LanguageModelCall["tools"]>;
type Schema = Extract<Tools[number], { type: "function" }>["inputSchema"];

const AUDIO_TYPES: Readonly<Record<string, string>> = { wav: "audio/wav", mp3: "audio/mpeg" };

/** The model that a call is converted for. */
interface Target {
  model: Model;
  dialect: Dialect;
  takes_blank_texts: boolean;
}

/** The whole call, without signal and output cap. Throws 400 for content that cannot be converted. */
export function languageModelCall(
  request: ChatRequest,
  { model, dialect }: Pick<Target, "model" | "dialect">,
): Omit<LanguageModelCall, "abortSignal"> {
  const { takes_blank_texts } = requestDialect(
    { name: model.owned_by, kind: model.kind, base_url: null },
    model.provider_model,
  );
  const target = { model, dialect, takes_blank_texts };
  const { temperature, top_p, presence_penalty, frequency_penalty, seed, stop, response_format, tool_choice } = request;
  const effort = dialect.effort(request);
  return {
    prompt: toPrompt(request.messages, target),
    ...(temperature == null ? {} : { temperature }),
    ...(top_p == null ? {} : { topP: top_p }),
    ...(presence_penalty == null ? {} : { presencePenalty: presence_penalty }),
    ...(frequency_penalty == null ? {} : { frequencyPenalty: frequency_penalty }),
    ...(seed == null ? {} : { seed }),
    ...(stop == null ? {} : { stopSequences: typeof stop === "string" ? [stop] : stop }),
    ...(request.tools == null ? {} : { tools: toTools(request.tools, target) }),
    ...(tool_choice == null ? {} : { toolChoice: toToolChoice(tool_choice) }),
    ...(response_format == null ? {} : { responseFormat: toResponseFormat(response_format) }),
    ...(effort === undefined ? {} : { reasoning: effort }),
    providerOptions: { [dialect.name]: dialect.options(request, model) },
  };
}

function toPrompt(messages: readonly ChatMessage[], target: Target): Prompt {
  const tool_names = new Map<string, string>();
  const prompt: Prompt = [];
  for (const [index, message] of messages.entries()) {
    for (const call of message.tool_calls ?? []) tool_names.set(call.id, calledFunction(call).name);
    if (message.role === "tool") appendToolResult(prompt, message, { index, tool_names, target });
    else {
      const converted = withoutBlanks(promptMessage(message, index, target), target, index === messages.length - 1);
      if (converted !== null && !isEmptyAnswer(converted)) prompt.push(converted);
    }
  }
  if (!target.dialect.hoists_system) return prompt;
  return [...prompt.filter(({ role }) => role === "system"), ...prompt.filter(({ role }) => role !== "system")];
}

/** Whether an answer has no effect, such as one whose thinking another provider made. Gemini rejects it. */
function isEmptyAnswer({ role, content }: PromptMessage): boolean {
  if (role !== "assistant") return false;
  return content.every((part) => part.type === "text" && part.text === "" && part.providerOptions === undefined);
}

/** The message without blank texts, which Claude rejects. Null: nothing is left of it. */
function withoutBlanks(message: PromptMessage, { takes_blank_texts }: Target, is_last: boolean): PromptMessage | null {
  if (takes_blank_texts) return message;
  if (message.role === "system") return isBlank(message.content) ? null : message;
  if (message.role === "tool") return message;
  const content = message.content.filter((part) => part.type !== "text" || !isBlank(part.text));
  if (content.length > 0) return { ...message, content } as PromptMessage;
  return message.role === "user" && is_last ? { ...message, content: [{ type: "text", text: NO_TEXT }] } : null;
}

function promptMessage(message: ChatMessage, index: number, target: Target): PromptMessage {
  const hint = hintOf(message.cache_control, target);
  if (message.role === "user") return { role: "user", content: userParts(message, index, target), ...hint };
  if (message.role === "assistant") {
    return { role: "assistant", content: assistantParts(message, target), ...hint };
  }
  const parts = typeof message.content === "string" ? [] : (message.content ?? []);
  const of_parts = parts.findLast(({ cache_control }) => cache_control != null)?.cache_control;
  return { role: "system", content: extractText(message), ...hintOf(message.cache_control ?? of_parts, target) };
}

/** The hint that the prompt up to here is worth caching. */
function hintOf(cache_control: CacheControl | null | undefined, { dialect, model }: Target) {
  if (cache_control == null || !traitsOf(model.kind).takes_cache_control) return {};
  const { type, ttl } = cache_control;
  return { providerOptions: { [dialect.name]: { cacheControl: { type, ...(ttl === undefined ? {} : { ttl }) } } } };
}

/** Puts the results of one turn into one message: these providers expect the answers to parallel calls together. */
function appendToolResult(
  prompt: Prompt,
  message: ChatMessage,
  { index, tool_names, target }: { index: number; tool_names: Map<string, string>; target: Target },
): void {
  const id = message.tool_call_id ?? "";
  const name = tool_names.get(id);
  if (name === undefined) {
    const param = `messages[${index}].tool_call_id`;
    throw errors.invalidValue(param, `${param} is not the id of a tool call in an earlier message.`);
  }
  const result = {
    type: "tool-result" as const,
    toolCallId: id,
    toolName: name,
    output: toOutput(message, index, target),
    ...hintOf(message.cache_control, target),
  };
  const last = prompt.at(-1);
  if (last?.role === "tool") last.content.push(result);
  else prompt.push({ role: "tool", content: [result] });
}

/** A tool's result: a text, or parts when it has others than texts. */
function toOutput(message: ChatMessage, index: number, target: Target): Output {
  const { takes_blank_texts } = target;
  const given = typeof message.content === "string" ? [] : (message.content ?? []);
  if (given.every(({ type }) => type === "text")) {
    const text = extractText(message);
    return { type: "text", value: takes_blank_texts || !isBlank(text) ? text : NO_OUTPUT };
  }
  const value = given.map((part, at) => userPart(part, `messages[${index}].content[${at}]`, target));
  const kept = value.filter((part) => takes_blank_texts || part.type !== "text" || !isBlank(part.text));
  return { type: "content", value: kept };
}

function userParts(message: ChatMessage, index: number, target: Target): UserPart[] {
  if (typeof message.content === "string") return [{ type: "text", text: message.content }];
  return (message.content ?? []).map((part, at) => ({
    ...userPart(part, `messages[${index}].content[${at}]`, target),
    ...hintOf(part.cache_control, target),
  }));
}

function userPart(part: ContentPart, param: string, target: Target): UserPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text ?? "" };
    case "image_url":
      return imagePart(part, `${param}.image_url.url`, target);
    case "file":
      return filePart(part.file as Record<string, unknown>, `${param}.file`);
    case "input_audio":
      return audioPart(part.input_audio as Record<string, unknown>, `${param}.input_audio`);
    default:
      throw errors.invalidValue(param, `This model takes no parts of type ${part.type} from a user.`);
  }
}

function imagePart({ image_url }: ContentPart, param: string, { dialect, model }: Target): UserPart {
  const { url: address = "", detail } = image_url ?? {};
  const inline = parseDataUrl(address);
  const shown =
    dialect.name === "openai" && detail !== undefined ? { providerOptions: { openai: { imageDetail: detail } } } : {};
  if (inline !== null && inline.data !== "") {
    const { media_type: mediaType, data } = inline;
    if (mediaType.startsWith("image/")) return { type: "file", mediaType, data: { type: "data", data }, ...shown };
    throw errors.invalidValue(param, `${param} must be a picture: its media type must begin with image/.`);
  }
  if (!traitsOf(model.kind).takes_image_addresses) {
    throw errors.invalidValue(param, `${param} must be a data: URL in base64 for this model.`);
  }
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw errors.invalidValue(param, "An image is a data: URL in base64 or an http(s) address.");
  }
  return { type: "file", mediaType: "image/*", data: { type: "url", url }, ...shown };
}

function filePart({ file_data, filename }: Record<string, unknown>, param: string): UserPart {
  const inline = typeof file_data === "string" ? parseDataUrl(file_data) : null;
  if (inline === null || inline.data === "" || inline.media_type !== "application/pdf") {
    const message = `${param}.file_data must be a PDF as a URL that begins with data:application/pdf;base64, for this model.`;
    throw errors.invalidValue(`${param}.file_data`, message);
  }
  const { data } = inline;
  const named = typeof filename === "string" ? { filename } : {};
  return { type: "file", mediaType: "application/pdf", data: { type: "data", data }, ...named };
}

function audioPart({ data, format }: Record<string, unknown>, param: string): UserPart {
  const mediaType = AUDIO_TYPES[String(format)];
  if (mediaType === undefined || typeof data !== "string") {
    throw errors.invalidValue(param, `${param} must have data in base64 and the format wav or mp3.`);
  }
  return { type: "file", mediaType, data: { type: "data", data } };
}

function assistantParts(message: ChatMessage, target: Target): AssistantPart[] {
  const { dialect } = target;
  const calls = (message.tool_calls ?? []).map((call) => callPart(call, target));
  const details = message.reasoning_details ?? [];
  const reasoning = dialect.parts(details);
  const text = textPart(message, target);
  const is_empty = text.text === "" && text.providerOptions === undefined;
  const others = is_empty && calls.length + reasoning.length > 0 ? calls : [text, ...calls];
  return inOrder(reasoning, others);
}

/** Gemini signs a text in a detail of its own. */
function textPart(message: ChatMessage, { dialect }: Target): Extract<AssistantPart, { type: "text" }> {
  const text = { type: "text" as const, text: extractText(message) };
  const signed = (message.reasoning_details ?? []).findLast(({ type }) => type === "reasoning.encrypted");
  if (dialect.name !== "google" || typeof signed?.data !== "string") return text;
  return { ...text, providerOptions: { google: { thoughtSignature: signed.data } } };
}

function callPart(call: AnyToolCall, { dialect }: Target): AssistantPart {
  const { name, arguments: given } = calledFunction(call);
  const is_text = call.type === "custom" && dialect.takes_custom_tools;
  const input = is_text ? given : call.type === "custom" ? { input: given } : readArguments(given);
  const signature = dialect.name === "google" ? call.extra_content?.google?.thought_signature : undefined;
  return {
    type: "tool-call",
    toolCallId: call.id,
    toolName: name,
    input,
    ...(typeof signature === "string" ? { providerOptions: { google: { thoughtSignature: signature } } } : {}),
  };
}

/** The blocks of an answer in their order: reasoning at its recorded position, or first. */
function inOrder(reasoning: ReturnType<Dialect["parts"]>, others: readonly AssistantPart[]): AssistantPart[] {
  const waiting = [...reasoning];
  const blocks: AssistantPart[] = [];
  const take = (last: boolean) => {
    while (waiting[0] !== undefined && (last || (waiting[0].index ?? 0) <= blocks.length)) {
      blocks.push((waiting.shift() as (typeof reasoning)[number]).part);
    }
  };
  for (const other of others) {
    take(false);
    blocks.push(other);
  }
  take(true);
  return blocks;
}

/** A call's arguments as an object, which these APIs require. A model may have written others, or been cut off. */
function readArguments(text: string): object {
  const given = text.trim() === "" ? {} : jsonOrUndefined(text);
  // The model sees what it wrote.
  return isJsonObject(given) ? given : { invalid_arguments: text };
}

function toTools(tools: NonNullable<ChatRequest["tools"]>, target: Target): Tools {
  return tools.map((tool, index) => {
    if (tool.type === "custom") {
      const { name, description, format } = tool.custom;
      if (!target.dialect.takes_custom_tools) throw gatewayErrors.unsupportedParameter(`tools[${index}].type`);
      const args = { ...(description == null ? {} : { description }), ...(format == null ? {} : { format }) };
      return { type: "provider", id: `${target.dialect.name}.custom`, name, args };
    }
    const { name, description, parameters, strict } = tool.function;
    return {
      type: "function",
      name,
      inputSchema: (parameters ?? { type: "object", properties: {} }) as Schema,
      ...(description == null ? {} : { description }),
      ...(strict == null ? {} : { strict }),
      ...hintOf(tool.cache_control, target),
    };
  });
}

function toToolChoice(choice: ToolChoice): NonNullable<LanguageModelCall["toolChoice"]> {
  if (typeof choice === "string") return { type: choice };
  return { type: "tool", toolName: choice.type === "custom" ? choice.custom.name : choice.function.name };
}

function toResponseFormat(format: ResponseFormat): NonNullable<LanguageModelCall["responseFormat"]> {
  if (format.type === "text") return { type: "text" };
  if (format.type === "json_object") return { type: "json" };
  const { name, description, schema } = format.json_schema;
  return {
    type: "json",
    name,
    ...(description == null ? {} : { description }),
    ...(schema == null ? {} : { schema: schema as Schema }),
  };
}

function extractText({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}
