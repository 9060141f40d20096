import type { ChatRequest, ResponseFormat, ToolChoice } from "../../api/contract/completions.ts";
import { RESPONSE_FIELDS, type ResponseRequest } from "../../api/contract/responses.ts";
import { errors } from "../../kernel/errors.ts";
import type { NativeRequest } from "../completions/completions.types.ts";
import { callersParam, type Origins, passedFields } from "../completions/passed-fields.ts";
import type { OpenEnvelope } from "../completions/reasoning-envelope.ts";
import { toConversation } from "./input-items.ts";
import { isLocalToolType } from "./local-tools.ts";
import { nativeRequest } from "./native-request.ts";
import type { ResponseContext } from "./responses.types.ts";
import { type Callee, functionName, offeredTools } from "./tool-names.ts";

/** Converts a request of the Responses API to a chat completion. Pure. */

/** A request as chat completions serves it. */
export interface TranslatedRequest {
  request: ChatRequest;
  callees: ReadonlyMap<string, Callee>;
  dropped_tools: string[];
  paramOf(param: string): string;
  /** For a provider with the Responses API. */
  native: NativeRequest;
}

/** Fields with a form of their own in chat completions, or without effect there. Other fields are passed on. */
const CONVERTED = new Set([
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "max_output_tokens",
  "text",
  "reasoning",
  "store",
  "include",
  "max_tool_calls",
  "truncation",
  "top_logprobs",
  "service_tier",
  "stream_options",
  "previous_response_id",
  "conversation",
  "background",
  "prompt",
]);
const ALTERNATIVES: Readonly<Record<string, string>> = {
  conversation:
    "Conversations are no objects of their own here. Continue a response with previous_response_id, or use POST /api/v1/agents/{id}/chat with thread_id.",
  background:
    "A response is answered at once here. For work in the background use an agent: POST /api/v1/agents/{id}/runs.",
  prompt: "Prompts are not stored here. Send instructions, or use an agent with a system_prompt: model agent/{id}.",
};

/**
 * `openEnvelope` opens the `encrypted_content` of the caller's reasoning items. `inherited`: how many items at the
 * beginning of `input` are of the responses before. A tier reaches only a provider that `takes` it.
 */
export function toChatRequest(
  asked: ResponseRequest,
  openEnvelope: OpenEnvelope,
  { inherited, takes }: { inherited: number } & Pick<ResponseContext, "takes">,
): TranslatedRequest {
  for (const [field, alternative] of Object.entries(ALTERNATIVES)) {
    if (asked[field] != null && asked[field] !== false) throw errors.invalidValue(field, alternative);
  }
  const { tools, origins: names, callees, dropped } = offeredTools(asked.tools);
  const { messages, origins } = toConversation(asked, openEnvelope, inherited);
  const chosen = toToolChoice(asked.tool_choice, tools as NamedTool[], callees);
  const { effort, summary } = asked.reasoning ?? {};
  const { format, verbosity } = asked.text ?? {};
  const { service_tier } = asked;
  const request = {
    ...passedFields(asked, { validated: RESPONSE_FIELDS, converted: CONVERTED, instead: PARAMS }),
    messages,
    ...(chosen.tools.length === 0 ? {} : { tools: chosen.tools, ...chosen.choice }),
    ...(asked.max_output_tokens === undefined ? {} : { max_tokens: asked.max_output_tokens }),
    ...(effort == null ? {} : { reasoning_effort: effort }),
    ...(summary == null ? {} : { reasoning: { summary } }),
    ...(verbosity == null ? {} : { verbosity }),
    ...(service_tier !== undefined && takes(asked.model, "service_tier") ? { service_tier } : {}),
    ...(format == null || format.type === "text" ? {} : { response_format: responseFormat(format) }),
    ...(asked.stream === true ? { stream_options: { include_usage: true } } : {}),
  } as unknown as ChatRequest;
  const offered = new Set(chosen.tools.map((tool) => tool.function.name));
  const native = nativeRequest(asked, offered, openEnvelope);
  const callers = {
    messages: origins,
    tools: chosen.tools.map((tool) => names.get(tool) ?? "tools"),
    fields: PART_FIELDS,
  };
  return { request, callees, dropped_tools: dropped, paramOf: (param) => paramOf(param, callers), native };
}

/** A map, because callers choose the names of fields: `constructor` is in every object. */
const PARAMS: ReadonlyMap<string, string> = new Map([
  ["max_tokens", "max_output_tokens"],
  ["max_completion_tokens", "max_output_tokens"],
  ["reasoning_effort", "reasoning.effort"],
  ["response_format", "text.format"],
  ["response_format.json_schema", "text.format"],
  ["messages", "input"],
]);

const PART_FIELDS: ReadonlyMap<string, string> = new Map([
  [".tool_call_id", ".call_id"],
  [".image_url.url", ".image_url"],
  [".file.file_data", ".file_data"],
]);

function paramOf(param: string, origins: Origins): string {
  // `input` and `instructions` as text have no parts, and parts of responses before are not in the request.
  const own = callersParam(param, origins)?.replace(/^(input|instructions|previous_response_id)\..*/, "$1");
  return own ?? PARAMS.get(param) ?? param;
}

function responseFormat({ type, ...json_schema }: { type: string; [field: string]: unknown }): ResponseFormat {
  return (type === "json_schema" ? { type, json_schema } : { type, ...json_schema }) as ResponseFormat;
}

interface NamedTool {
  function: { name: string };
}

/** The tools that may be called, and the choice. A choice that forces a tool of OpenAI is rejected. */
function toToolChoice(
  choice: ResponseRequest["tool_choice"],
  tools: NamedTool[],
  callees: ReadonlyMap<string, Callee>,
): { tools: NamedTool[]; choice: { tool_choice?: ToolChoice } } {
  if (choice === undefined) return { tools, choice: {} };
  if (typeof choice === "string") return { tools, choice: { tool_choice: choice as ToolChoice } };
  if (choice.type === "allowed_tools") {
    const { mode, tools: allowed } = choice as { mode: "auto" | "required"; tools: Chosen[] };
    const names = new Set(allowed.map((each) => calledName(each, callees)));
    return { tools: tools.filter((tool) => names.has(tool.function.name)), choice: { tool_choice: mode } };
  }
  const called = calledName(choice as Chosen, callees);
  if (called === null) {
    throw errors.invalidValue(
      "tool_choice",
      `The tool ${choice.type.slice(0, 40)} is executed by OpenAI and does not exist here. Choose a function, or use an agent with tools.`,
    );
  }
  return { tools, choice: { tool_choice: { type: "function", function: { name: called } } } };
}

/** The name of a chosen tool's function; null for a tool that OpenAI executes. */
function calledName({ type, name, namespace }: Chosen, callees: ReadonlyMap<string, Callee>): string | null {
  if (isLocalToolType(type)) return callees.get(type)?.type === type ? type : null;
  return type === "function" || type === "custom" ? functionName(name ?? "", namespace) : null;
}

interface Chosen {
  type: string;
  name?: string | null;
  namespace?: string | null;
}
