import type { ChatRequest, ToolChoice } from "../../api/contract/completions.ts";
import { type Block, MESSAGE_FIELDS, type MessagesRequest } from "../../api/contract/messages.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import { errors } from "../../kernel/errors.ts";
import type { NativeRequest } from "../completions/completions.types.ts";
import { callersParam, type Origins, passedFields } from "../completions/passed-fields.ts";
import type { OpenEnvelope } from "../completions/reasoning-envelope.ts";
import { isClientTool, needsVision, readBetas, readVersions, type Tool, withSchema } from "./client-tools.ts";
import { isOfHostedTool, toConversation } from "./content-blocks.ts";

/** Converts a request of Anthropic's Messages API to a chat completion. Pure. */

export interface TranslatedMessage {
  request: ChatRequest;
  dropped_tools: string[];
  /** The names in `anthropic-beta` that the tools need. */
  betas: string[];
  needs_vision: boolean;
  paramOf(param: string): string;
  /** For a provider with Anthropic's API; absent when the request has thinking that we sealed for another model. */
  native?: NativeRequest;
}

/** Fields with another form in chat completions. Other fields are passed on, thinking and betas unchanged. */
const CONVERTED = new Set([
  "messages",
  "system",
  "tools",
  "tool_choice",
  "stop_sequences",
  "output_config",
  "service_tier",
]);

/** Names of chat completions in this API. */
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ["stop", "stop_sequences"],
  ["max_completion_tokens", "max_tokens"],
  ["response_format", "output_config.format"],
  ["reasoning_effort", "output_config.effort"],
]);

/** The chat completion for a message. `openEnvelope` opens the caller's thinking blocks. Throws 400 for unknown blocks. */
export function toChatRequest(asked: MessagesRequest, openEnvelope: OpenEnvelope): TranslatedMessage {
  if (asked.thread !== undefined) throw gatewayErrors.noMessageThreads();
  const { messages, origins, parts } = toConversation(asked, openEnvelope);
  const asked_tools = asked.tools ?? [];
  const are_own = asked_tools.map(isExecutedByCaller);
  const own = asked_tools.filter((_, at) => are_own[at]);
  const functions = own.map(withSchema);
  refuseSameName(own, functions);
  const dropped_tools = asked_tools.flatMap(({ type }, at) => (are_own[at] ? [] : String(type)));
  const tools = asked_tools.flatMap((_, at) => (are_own[at] ? `tools[${at}]` : []));
  const { format, ...output_config } = asked.output_config ?? {};
  const request = {
    ...passedFields(asked, { validated: MESSAGE_FIELDS, converted: CONVERTED, instead: INSTEAD }),
    messages,
    ...(own.length === 0 ? {} : { tools: functions.map(toFunction), ...choiceOf(asked.tool_choice, functions) }),
    ...(asked.stop_sequences === undefined ? {} : { stop: asked.stop_sequences }),
    ...(Object.keys(output_config).length === 0 ? {} : { output_config }),
    ...(typeof output_config.effort === "string" ? { reasoning_effort: output_config.effort } : {}),
    ...(format == null
      ? {}
      : { response_format: { type: "json_schema", json_schema: { name: "answer", schema: format.schema } } }),
    ...(asked.stream === true ? { stream_options: { include_usage: true } } : {}),
  } as unknown as ChatRequest;
  const native = hasSealed(asked, openEnvelope) ? {} : { native: toNative(asked, own, dropped_tools) };
  return {
    request,
    dropped_tools,
    betas: readBetas(own),
    needs_vision: own.some(needsVision),
    paramOf: (param) => paramOf(param, { messages: origins, parts, tools, fields: PART_FIELDS }),
    ...native,
  };
}

/** The conversation and the tools as the caller wrote them, without the tools that were dropped. */
function toNative(asked: MessagesRequest, tools: readonly Tool[], dropped_tools: readonly string[]): NativeRequest {
  const { messages, system, tool_choice, output_config } = asked;
  // The conversion of a schema may be a tool of its own.
  const is_converted = tools.length === 0 || output_config?.format != null;
  const lacks_search = dropped_tools.some((type) => type.startsWith("tool_search_tool"));
  const own_tools = tools.map((tool) => ownTool(tool, lacks_search));
  const with_tools = is_converted ? {} : { tools: own_tools, ...(tool_choice === undefined ? {} : { tool_choice }) };
  // Other fields of a message could change the price. Blocks of unknown types were rejected before.
  const own = messages.flatMap(({ role, content }) => {
    const kept =
      typeof content === "string" ? content : content.filter((block) => !isOfHostedTool(block)).map(ownBlock);
    return Array.isArray(kept) && kept.length === 0 ? [] : [{ role, content: kept }];
  });
  // Undefined replaces the system prompt that the conversion makes of the first system message.
  const fields = { messages: own, system: system?.length === 0 ? undefined : system, ...with_tools };
  return { kind: "anthropic", fields: () => fields };
}

/**
 * A tool as the caller wrote it. The model would never see one that only a dropped tool can call or find: a program that
 * Anthropic executes, or its search of tools (`lacks_search`). A caller that searches by itself keeps `defer_loading`.
 */
function ownTool(tool: Tool, lacks_search: boolean): object {
  const { allowed_callers: _callers, ...own } = tool as Record<string, unknown>;
  if (!lacks_search) return own;
  const { defer_loading: _deferred, ...visible } = own;
  return visible;
}

/** A block as the caller wrote it. The caller of a call is a program that Anthropic executed, which is left out. */
function ownBlock(block: Block): object {
  if (block.type !== "tool_use") return block;
  const { caller: _caller, ...own } = block as Record<string, unknown>;
  return own;
}

function hasSealed({ messages }: MessagesRequest, openEnvelope: OpenEnvelope): boolean {
  return messages.some(
    ({ role, content }) =>
      role === "assistant" &&
      Array.isArray(content) &&
      (content as { signature?: unknown; data?: unknown }[]).some(({ signature, data }) => {
        const sealed = signature ?? data;
        return typeof sealed === "string" && openEnvelope(sealed) !== null;
      }),
  );
}

/**
 * Whether the caller executes the tool. Other tools are dropped, because Anthropic executes them. Throws 400 for a tool
 * that Anthropic cannot mean to execute: in OpenAI's form, in a version that is not known here, or with a schema.
 */
function isExecutedByCaller(tool: Tool, at: number): boolean {
  if (tool.type == null || tool.type === "custom" || isClientTool(tool)) return true;
  const param = `tools[${at}].type`;
  if (tool.type === "function") {
    throw errors.invalidValue(
      param,
      `tools[${at}] has OpenAI's form. Send {"name", "description", "input_schema"}: leave out type and function, and call parameters input_schema.`,
    );
  }
  const versions = readVersions(tool.type);
  if (versions.length > 0) throw errors.invalidValue(param, `${param} must be ${versions.join(" or ")}.`);
  if (tool.input_schema == null) return false;
  throw errors.invalidValue(param, `${param} must be custom, or absent, because the tool has an input_schema.`);
}

/** Throws 400 for a tool with the name of one that Anthropic defines. */
function refuseSameName(own: readonly Tool[], functions: readonly Tool[]): void {
  const names = functions.map(({ name }) => name);
  for (const [at, tool] of own.entries()) {
    const name = names[at];
    if (!isClientTool(tool) || names.indexOf(name) === names.lastIndexOf(name)) continue;
    throw gatewayErrors.sameToolName(String(name), `Anthropic's type ${tool.type}`);
  }
}

function toFunction(tool: Tool): object {
  const { name, description, input_schema, strict, cache_control } = tool as Record<string, unknown>;
  const given = Object.entries({ description, parameters: input_schema, strict }).filter(([, value]) => value != null);
  const hint = cache_control == null ? {} : { cache_control };
  return { type: "function", function: { name, ...Object.fromEntries(given) }, ...hint };
}

function choiceOf(choice: MessagesRequest["tool_choice"], own: readonly Tool[]) {
  if (choice === undefined) return {};
  const parallel = choice.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {};
  return { tool_choice: chosen(choice.type, choice.name ?? null, own), ...parallel };
}

function chosen(type: string, name: string | null, own: readonly Tool[]): ToolChoice {
  if (type !== "tool") return type === "any" ? "required" : (type as "auto" | "none");
  if (name !== null && own.some((tool) => tool.name === name)) return { type: "function", function: { name } };
  throw errors.invalidValue(
    "tool_choice.name",
    "tool_choice.name must name one of your tools. Tools that Anthropic executes do not exist here.",
  );
}

/** A map, because callers choose the names of fields: `constructor` is in every object. */
const PARAMS: ReadonlyMap<string, string> = new Map([
  ["stop", "stop_sequences"],
  ["reasoning_effort", "output_config.effort"],
  ["response_format", "output_config.format"],
  ["response_format.json_schema", "output_config.format"],
  ["parallel_tool_calls", "tool_choice.disable_parallel_tool_use"],
]);

const PART_FIELDS: ReadonlyMap<string, string> = new Map([
  [".tool_call_id", ".tool_use_id"],
  [".image_url.url", ".source"],
  [".file.file_data", ".source"],
]);

function paramOf(param: string, origins: Origins): string {
  return callersParam(param, origins) ?? PARAMS.get(param) ?? param;
}
