import type { createAnthropic } from "@ai-sdk/anthropic";
import type { ChatMessage, ChatRequest, ContentPart, ResponseFormat, ToolChoice } from "../contract/completions.ts";
import { errors } from "../errors.ts";
import { calledOf } from "./generated-text.ts";
import { type ProviderKind, traitsOf } from "./providers.ts";

/** Converts OpenAI's request to a call of the AI SDK's language models (their specification v4). Pure. */

/** One model of a provider of the AI SDK. The type is the same for all providers. */
export type LanguageModel = ReturnType<ReturnType<typeof createAnthropic>["languageModel"]>;
export type LanguageModelCall = Parameters<LanguageModel["doGenerate"]>[0];
type Prompt = LanguageModelCall["prompt"];
type PromptMessage = Prompt[number];
type UserPart = Extract<PromptMessage, { role: "user" }>["content"][number];
type AssistantPart = Extract<PromptMessage, { role: "assistant" }>["content"][number];
type FunctionToolOf<Tool> = Extract<Tool, { type: "function" }>;
type Tool = FunctionToolOf<NonNullable<LanguageModelCall["tools"]>[number]>;

const DATA_URL = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+);base64,(.+)$/is;
const AUDIO_TYPES: Readonly<Record<string, string>> = { wav: "audio/wav", mp3: "audio/mpeg" };
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** The whole call, without signal and output cap. Throws 400 for content that cannot be converted. */
export function languageModelCall(request: ChatRequest, kind: ProviderKind): Omit<LanguageModelCall, "abortSignal"> {
  const { temperature, top_p, presence_penalty, frequency_penalty, seed, stop, response_format, tool_choice } = request;
  const { one_tool_at_a_time } = traitsOf(kind);
  const is_limited = one_tool_at_a_time !== undefined && request.parallel_tool_calls === false;
  const effort = EFFORTS.find((each) => each === request.reasoning_effort);
  return {
    prompt: promptOf(request.messages, kind),
    ...(temperature == null ? {} : { temperature }),
    ...(top_p == null ? {} : { topP: top_p }),
    ...(presence_penalty == null ? {} : { presencePenalty: presence_penalty }),
    ...(frequency_penalty == null ? {} : { frequencyPenalty: frequency_penalty }),
    ...(seed == null ? {} : { seed }),
    ...(stop == null ? {} : { stopSequences: typeof stop === "string" ? [stop] : stop }),
    ...(request.tools == null ? {} : { tools: toolsOf(request.tools) }),
    ...(tool_choice == null ? {} : { toolChoice: toolChoiceOf(tool_choice) }),
    ...(response_format == null ? {} : { responseFormat: responseFormatOf(response_format) }),
    ...(effort === undefined ? {} : { reasoning: effort }),
    ...(is_limited ? { providerOptions: one_tool_at_a_time } : {}),
  };
}

function promptOf(messages: readonly ChatMessage[], kind: ProviderKind): Prompt {
  const tool_names = new Map<string, string>();
  const prompt: Prompt = [];
  for (const [index, message] of messages.entries()) {
    for (const call of message.tool_calls ?? []) tool_names.set(call.id, calledOf(call).name);
    if (message.role === "tool") appendToolResult(prompt, message, { index, tool_names });
    else prompt.push(promptMessage(message, index, kind));
  }
  return prompt;
}

function promptMessage(message: ChatMessage, index: number, kind: ProviderKind): PromptMessage {
  if (message.role === "user") return { role: "user", content: userParts(message, index, kind) };
  if (message.role === "assistant") return { role: "assistant", content: assistantParts(message, index) };
  return { role: "system", content: textOf(message) };
}

/** Puts the results of one turn into one message: these providers expect the answers to parallel calls together. */
function appendToolResult(
  prompt: Prompt,
  message: ChatMessage,
  { index, tool_names }: { index: number; tool_names: Map<string, string> },
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
    output: { type: "text" as const, value: textOf(message) },
  };
  const last = prompt.at(-1);
  if (last?.role === "tool") last.content.push(result);
  else prompt.push({ role: "tool", content: [result] });
}

function userParts(message: ChatMessage, index: number, kind: ProviderKind): UserPart[] {
  if (typeof message.content === "string") return [{ type: "text", text: message.content }];
  return (message.content ?? []).map((part, at) => userPart(part, `messages[${index}].content[${at}]`, kind));
}

function userPart(part: ContentPart, param: string, kind: ProviderKind): UserPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text ?? "" };
    case "image_url":
      return imagePart(part.image_url?.url ?? "", `${param}.image_url.url`, kind);
    case "file":
      return filePart(part.file as Record<string, unknown>, `${param}.file`);
    case "input_audio":
      return audioPart(part.input_audio as Record<string, unknown>, `${param}.input_audio`);
    default:
      throw errors.invalidValue(param, `This model takes no parts of type ${part.type} from a user.`);
  }
}

function imagePart(address: string, param: string, kind: ProviderKind): UserPart {
  const [, mediaType, data] = DATA_URL.exec(address) ?? [];
  if (mediaType !== undefined && data !== undefined) {
    if (/^image\//i.test(mediaType)) return { type: "file", mediaType, data: { type: "data", data } };
    throw errors.invalidValue(param, `${param} must be a picture: its media type must begin with image/.`);
  }
  if (!traitsOf(kind).takes_image_addresses) {
    throw errors.invalidValue(param, `${param} must be a data: URL in base64 for this model.`);
  }
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw errors.invalidValue(param, "An image is a data: URL in base64 or an http(s) address.");
  }
  return { type: "file", mediaType: "image/*", data: { type: "url", url } };
}

function filePart({ file_data, filename }: Record<string, unknown>, param: string): UserPart {
  const [, mediaType, data] = DATA_URL.exec(typeof file_data === "string" ? file_data : "") ?? [];
  if (data === undefined || mediaType?.toLowerCase() !== "application/pdf") {
    const message = `${param}.file_data must be a PDF as a URL that begins with data:application/pdf;base64, for this model.`;
    throw errors.invalidValue(`${param}.file_data`, message);
  }
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

function assistantParts(message: ChatMessage, index: number): AssistantPart[] {
  const text = textOf(message);
  const calls = (message.tool_calls ?? []).map((call, at): AssistantPart => {
    const { name, arguments: given } = calledOf(call);
    const param = `messages[${index}].tool_calls[${at}].function.arguments`;
    const input = call.type === "custom" ? { input: given } : parsedArguments(given, param);
    return { type: "tool-call", toolCallId: call.id, toolName: name, input };
  });
  return text === "" && calls.length > 0 ? calls : [{ type: "text", text }, ...calls];
}

function parsedArguments(text: string, param: string): unknown {
  try {
    return text.trim() === "" ? {} : JSON.parse(text);
  } catch {
    throw errors.invalidValue(param, `${param} is not JSON. Send back the arguments as the model gave them.`);
  }
}

function toolsOf(tools: NonNullable<ChatRequest["tools"]>): Tool[] {
  return tools.map((tool, index) => {
    if (tool.type === "custom") throw errors.unsupportedParameter(`tools[${index}].type`);
    const { name, description, parameters, strict } = tool.function;
    return {
      type: "function",
      name,
      inputSchema: (parameters ?? { type: "object", properties: {} }) as Tool["inputSchema"],
      ...(description == null ? {} : { description }),
      ...(strict == null ? {} : { strict }),
    };
  });
}

function toolChoiceOf(choice: ToolChoice): NonNullable<LanguageModelCall["toolChoice"]> {
  if (typeof choice === "string") return { type: choice };
  return { type: "tool", toolName: choice.type === "custom" ? choice.custom.name : choice.function.name };
}

function responseFormatOf(format: ResponseFormat): NonNullable<LanguageModelCall["responseFormat"]> {
  if (format.type === "text") return { type: "text" };
  if (format.type === "json_object") return { type: "json" };
  const { name, description, schema } = format.json_schema;
  return {
    type: "json",
    name,
    ...(description == null ? {} : { description }),
    ...(schema == null ? {} : { schema: schema as Tool["inputSchema"] }),
  };
}

function textOf({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}
