import { createHash } from "node:crypto";
import type { AnyToolCall, ChatMessage, ChatRequest, ContentPart, Tool } from "../../api/contract/completions.ts";
import { isJsonObject } from "../../platform/lib/json.ts";
import { adaptedSchema, changedArguments, type Renaming } from "../../platform/lib/tool-schema.ts";
import { restoreCall, restoredParts } from "./answer-names.ts";
import { type RequestDialect, requestDialect, type Server } from "./dialects.ts";
import type { CallersNames, ModelRequest, NativeRequest, Provider } from "./models.types.ts";
import {
  type Adaptation,
  adaptedItems,
  adaptedMessages,
  isBlank,
  NO_OUTPUT,
  NO_TEXT,
  withNote,
} from "./native-blocks.ts";
import { toolName } from "./tool-calls.ts";

/**
 * Requests in the dialect of their server (`dialects.ts`), and the caller's own ids and names of arguments in its
 * answers.
 */

const HASH_CHARACTERS = 8;

/** `provider` with requests in the dialect of `server`. */
export function withDialect(provider: Provider, server: Server): Provider {
  const dialects = new Map<string, RequestDialect>();
  function getDialect(provider_model: string): RequestDialect {
    const known = dialects.get(provider_model);
    if (known !== undefined) return known;
    const dialect = requestDialect(server, provider_model);
    dialects.set(provider_model, dialect);
    return dialect;
  }
  return {
    ...provider,
    async prepare(call) {
      const { adapted, names } = adaptedCall(call, getDialect(call.model.provider_model));
      const prepared = await provider.prepare(adapted);
      return names === null ? prepared : { ...prepared, callers_names: names };
    },
    async complete(request, options) {
      const completion = await provider.complete(request, options);
      const { callers_names } = request;
      if (callers_names === undefined) return completion;
      for (const { message } of completion.response.choices) {
        for (const call of message.tool_calls ?? []) restoreCall(call, callers_names);
      }
      return completion;
    },
    async stream(request, options) {
      const stream = await provider.stream(request, options);
      if (request.callers_names === undefined) return stream;
      return { ...stream, parts: restoredParts(stream.parts, request.callers_names) };
    },
  };
}

function adaptedCall(
  call: ModelRequest,
  dialect: RequestDialect,
): { adapted: ModelRequest; names: CallersNames | null } {
  const { request, native } = call;
  const adapted_tools = (request.tools ?? []).map((tool) => adaptedTool(tool, dialect));
  const tools = new Map(
    adapted_tools.flatMap(({ tool, renaming }) => (renaming === null ? [] : [[toolName(tool), renaming] as const])),
  );
  const ids = new Map<string, string>();
  const idOf = (id: string): string => {
    const other = callId(id, dialect);
    if (other !== id) ids.set(other, id);
    return other;
  };
  const adaptation: Adaptation = { dialect, tools, idOf };
  const messages = request.messages.map((message) => adaptedMessage(message, adaptation));
  const fields = {
    ...request,
    messages: dialect.takes_blank_texts || call.model.kind !== "openai-compatible" ? messages : withoutBlanks(messages),
    ...(request.tools === undefined ? {} : { tools: adapted_tools.map(({ tool }) => tool) }),
  };
  const adapted = {
    ...call,
    request: withOwnFields(fields, call, dialect),
    ...(native === undefined ? {} : { native: adaptedNative(native, adaptation) }),
  };
  return { adapted, names: ids.size + tools.size === 0 ? null : { ids, tools } };
}

function adaptedNative(native: NativeRequest, adaptation: Adaptation): NativeRequest {
  const adapted = native.kind === "anthropic" ? adaptedMessages : adaptedItems;
  return { ...native, fields: (model) => adapted(native.fields(model), adaptation) };
}

function adaptedTool(tool: Tool, { argument_names }: RequestDialect): { tool: Tool; renaming: Renaming | null } {
  if (tool.type !== "function" || !isJsonObject(tool.function.parameters)) return { tool, renaming: null };
  const { parameters, note, renaming } = adaptedSchema(tool.function.parameters, { allowed: argument_names });
  const described = note === "" ? {} : { description: withNote(tool.function.description, note) };
  return { tool: { ...tool, function: { ...tool.function, ...described, parameters } }, renaming };
}

function adaptedMessage(message: ChatMessage, { dialect, tools, idOf }: Adaptation): ChatMessage {
  const { role, tool_calls, tool_call_id } = message;
  const adapted: ChatMessage = { ...message };
  if (role === "developer" && !dialect.takes_developer) adapted.role = "system";
  if (tool_calls != null) adapted.tool_calls = tool_calls.map((call) => toAdaptedCall(call, { tools, idOf }));
  if (role === "tool" && tool_call_id !== undefined) adapted.tool_call_id = idOf(tool_call_id);
  for (const field of dialect.dropped_message_fields) delete adapted[field];
  return adapted;
}

function toAdaptedCall(call: AnyToolCall, { tools, idOf }: Pick<Adaptation, "tools" | "idOf">): AnyToolCall {
  const id = idOf(call.id);
  if (call.type !== "function") return { ...call, id };
  const renaming = tools.get(call.function.name);
  if (renaming === undefined) return { ...call, id };
  return {
    ...call,
    id,
    function: { ...call.function, arguments: changedArguments(call.function.arguments, renaming.forProvider) },
  };
}

/** The same other id for the same id, so that the prompt stays the same from turn to turn. */
function callId(id: string, { call_ids }: RequestDialect): string {
  if (call_ids === null || call_ids.pattern.test(id)) return id;
  const hash = createHash("sha256").update(id).digest("hex");
  if (call_ids.length <= HASH_CHARACTERS + 1) return hash.slice(0, call_ids.length);
  const start = id.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, call_ids.length - HASH_CHARACTERS - 1);
  return `${start}_${hash.slice(0, HASH_CHARACTERS)}`;
}

/** The request without fields that the server rejects, and with others under its names for them. */
function withOwnFields(
  request: ChatRequest,
  { max_output_tokens }: ModelRequest,
  { output_cap, dropped_fields, renamed_fields }: RequestDialect,
): ChatRequest {
  const own: Record<string, unknown> = { ...request };
  for (const field of dropped_fields) delete own[field];
  for (const [field, name] of Object.entries(renamed_fields)) {
    if (own[field] == null) continue;
    own[name] = own[field];
    delete own[field];
  }
  if (output_cap !== null) {
    delete own.max_tokens;
    delete own.max_completion_tokens;
    own[output_cap] = max_output_tokens;
  }
  return own as ChatRequest;
}

/** Messages without blank texts, for a model of Claude at another provider's server. `language-model-prompt.ts` has the same for Anthropic's API. */
function withoutBlanks(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.flatMap((message, index) => {
    const content = withoutBlankParts(message.content);
    const { role, tool_calls } = message;
    if (content !== null) return { ...message, content };
    if (role === "tool") return { ...message, content: NO_OUTPUT };
    if ((tool_calls ?? []).length > 0) return { ...message, content: null };
    return role === "user" && index === messages.length - 1 ? { ...message, content: NO_TEXT } : [];
  });
}

function withoutBlankParts(content: ChatMessage["content"]): string | ContentPart[] | null {
  if (!Array.isArray(content)) return isBlank(content) ? null : (content as string);
  const parts = content.filter(({ type, text }) => type !== "text" || !isBlank(text));
  return parts.length === 0 ? null : parts;
}
