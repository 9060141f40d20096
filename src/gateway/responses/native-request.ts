import type { ReasoningDetail } from "../../api/contract/completions.ts";
import type { InputItem, ResponseRequest, ResponseTool } from "../../api/contract/responses.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { NativeRequest, NativeTarget } from "../completions/completions.types.ts";
import type { OpenEnvelope } from "../completions/reasoning-envelope.ts";
import { replayedItem } from "./input-items.ts";
import { localFunction, localToolType } from "./local-tools.ts";
import { customArguments, functionName, offeredTools } from "./tool-names.ts";

/**
 * The parts of a request that a provider with the Responses API gets as the caller wrote them. Namespaces are functions
 * with longer names, as for other providers; ids of items are ours, and reasoning is opened. Pure.
 */

type Fields = Record<string, unknown>;

/** `offered`: the names of the functions and custom tools that may be called. */
export function nativeRequest(
  asked: ResponseRequest,
  offered: ReadonlySet<string>,
  openEnvelope: OpenEnvelope,
): NativeRequest {
  const { input, instructions, tools, tool_choice: choice } = asked;
  const native_tools = (tools ?? []).flatMap(nativeTools).filter(({ name }) => offered.has(String(name)));
  const is_custom = typeof choice === "object" && choice.type === "custom" && choice.namespace == null;
  const fixed = {
    ...(instructions === undefined ? {} : { instructions }),
    ...(native_tools.length === 0 ? {} : { tools: native_tools }),
    ...(is_custom ? { tool_choice: choice } : {}),
  };
  const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input;
  return { kind: "openai", fields: (model) => ({ ...fixed, input: nativeItems(items, model, openEnvelope) }) };
}

function nativeTools(tool: ResponseTool): Fields[] {
  if (tool.type === "function" || tool.type === "custom") return [tool as Fields];
  // OpenAI makes a schema strict by itself, and then its optional fields are required.
  const local = localToolType(tool);
  if (local !== null) return [{ type: "function", strict: false, ...localFunction(local) }];
  const { tools } = offeredTools([tool]) as { tools: { function: Fields }[] };
  return tools.map((each) => ({ type: "function", ...each.function }));
}

function nativeItems(items: readonly InputItem[], model: NativeTarget, openEnvelope: OpenEnvelope): Fields[] {
  /** The calls of custom tools in a namespace, which are functions for the provider. */
  const as_functions = new Set<unknown>();
  return items.flatMap((sent): Fields[] => {
    const item = replayedItem(sent);
    if (item === null) return [];
    // The caller of a call is a program that OpenAI executed, which is left out.
    const { id: _, caller: _caller, ...given } = item as Fields;
    const fields = { ...given, ...safeParts(given) };
    const { type, namespace, name, call_id } = fields;
    if (type === "reasoning") return reasoningItem(fields, model, openEnvelope);
    if (type === "custom_tool_call_output" && as_functions.has(call_id)) {
      return [{ ...fields, type: "function_call_output" }];
    }
    if (namespace == null || namespace === "") return [fields];
    const { namespace: _namespace, input, ...call } = fields;
    const called = { ...call, name: functionName(String(name), String(namespace)) };
    if (type !== "custom_tool_call") return [called];
    as_functions.add(call_id);
    return [{ ...called, type: "function_call", arguments: customArguments(String(input)) }];
  });
}

function safeParts({ content, output }: Fields): Fields {
  return {
    ...(Array.isArray(content) ? { content: content.map(safePart) } : {}),
    ...(Array.isArray(output) ? { output: output.map(safePart) } : {}),
  };
}

/**
 * A part with its data alone: a file's id names a file of the operator, and an address any file. The provider keeps its
 * cache for the usual time: a longer one has a price that no hold covers.
 */
function safePart(given: unknown): unknown {
  const { file_id: _id, file_url: _url, prompt_cache_breakpoint: mark, ...part } = fieldsOf(given);
  const { ttl: _ttl, ...kept } = fieldsOf(mark);
  return mark == null ? part : { ...part, prompt_cache_breakpoint: kept };
}

/** The provider's own reasoning items, in the order in which the model made them. Of another model or route: none. */
function reasoningItem(
  { encrypted_content }: Fields,
  { id: model_id, route }: NativeTarget,
  openEnvelope: OpenEnvelope,
): Fields[] {
  const opened = openEnvelope(typeof encrypted_content === "string" ? encrypted_content : "");
  if (opened === null || (opened.model !== undefined && opened.model !== model_id)) return [];
  const details = ((opened.reasoning_details ?? []) as ReasoningDetail[]).filter(
    ({ format, model, route: by = null }) =>
      format === "openai-responses-v1" && (model == null || model === model_id) && by === route,
  );
  const items = Map.groupBy(details, ({ id }) => id ?? null);
  return [...items].flatMap(([id, pieces]) => {
    const sealed = pieces.find(({ type }) => type === "reasoning.encrypted")?.data;
    if (sealed === undefined) return [];
    const texts = pieces.flatMap(({ summary }) => summary ?? []);
    const summary = texts.map((text) => ({ type: "summary_text", text }));
    return [{ type: "reasoning", ...(id === null ? {} : { id }), summary, encrypted_content: sealed }];
  });
}
