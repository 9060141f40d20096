import { fieldsOf, isJsonObject } from "../../platform/lib/json.ts";
import { toMediaType, usualDataUrl } from "../../platform/lib/media-type.ts";
import { adaptedSchema, type Renaming } from "../../platform/lib/tool-schema.ts";
import type { RequestDialect } from "./dialects.ts";

/**
 * The caller's own blocks and items, for a provider with the same API, in its dialect: what the provider would reject is
 * replaced, and everything else stays as it was sent.
 */

type Fields = Record<string, unknown>;

/** What changes in one request. */
export interface Adaptation {
  dialect: RequestDialect;
  /** The tools whose arguments have other names for the provider, by name. */
  tools: ReadonlyMap<string, Renaming>;
  /** The id of a call as the provider takes it. */
  idOf(id: string): string;
}

/** In place of a turn of the user without any text: a conversation cannot end without a turn. */
export const NO_TEXT = "(no text)";
/** In place of a tool's result without any text. */
export const NO_OUTPUT = "(no output)";

/** Whether a text is empty or blank. */
export function isBlank(text: unknown): boolean {
  return typeof text !== "string" || text.trim() === "";
}

/** A description with a sentence more. */
export function withNote(description: unknown, note: string): string {
  return typeof description === "string" && description !== "" ? `${description}\n${note}` : note;
}

/** The fields of a request of Anthropic's Messages API. */
export function adaptedMessages(fields: Fields, adaptation: Adaptation): Fields {
  const { system, messages, tools } = fields;
  return {
    ...fields,
    ...(system === undefined ? {} : { system: withoutBlankBlocks(system) ?? undefined }),
    ...(Array.isArray(messages) ? { messages: adaptedTurns(messages as Fields[], adaptation) } : {}),
    ...(Array.isArray(tools) ? { tools: tools.map((tool) => adaptedTool(tool, "input_schema", adaptation)) } : {}),
  };
}

/** The fields of a request of OpenAI's Responses API. */
export function adaptedItems(fields: Fields, adaptation: Adaptation): Fields {
  const { input, tools } = fields;
  return {
    ...fields,
    ...(Array.isArray(input) ? { input: input.map((item) => adaptedItem(fieldsOf(item), adaptation)) } : {}),
    ...(Array.isArray(tools) ? { tools: tools.map((tool) => adaptedTool(tool, "parameters", adaptation)) } : {}),
  };
}

function adaptedTurns(messages: readonly Fields[], adaptation: Adaptation): Fields[] {
  return messages.flatMap((message, index) => {
    const { role, content } = message;
    const blocks = Array.isArray(content) ? content.map((block) => adaptedBlock(fieldsOf(block), adaptation)) : content;
    const kept = withoutBlankBlocks(blocks);
    if (kept !== null) return { ...message, content: kept };
    return role === "user" && index === messages.length - 1 ? { ...message, content: NO_TEXT } : [];
  });
}

/** Null: nothing is left. */
function withoutBlankBlocks(content: unknown): unknown {
  if (!Array.isArray(content)) return isBlank(content) ? null : content;
  const kept = content.filter((block) => fieldsOf(block).type !== "text" || !isBlank(fieldsOf(block).text));
  return kept.length === 0 ? null : kept;
}

function adaptedBlock(block: Fields, adaptation: Adaptation): Fields {
  const { tools, idOf } = adaptation;
  switch (block.type) {
    case "tool_use": {
      const renaming = tools.get(String(block.name));
      const renamed = renaming === undefined ? {} : { input: renaming.forProvider(block.input) };
      return { ...block, id: idOf(String(block.id)), ...renamed };
    }
    case "tool_result": {
      const { content, is_error } = block;
      const id = { tool_use_id: idOf(String(block.tool_use_id)) };
      // A failed result cannot be empty.
      if (content == null && is_error !== true) return { ...block, ...id };
      const blocks = Array.isArray(content) ? content.map((each) => withUsualType(fieldsOf(each))) : content;
      return { ...block, ...id, content: withoutBlankBlocks(blocks) ?? NO_OUTPUT };
    }
    default:
      return withUsualType(block);
  }
}

/** A picture or a document whose media type Anthropic knows. */
function withUsualType(block: Fields): Fields {
  const source = fieldsOf(block.source);
  const { type, media_type, data } = source;
  if (type !== "base64" || typeof media_type !== "string" || typeof data !== "string") return block;
  const usual = toMediaType(media_type, data);
  return usual === media_type ? block : { ...block, source: { ...source, media_type: usual } };
}

function adaptedItem(item: Fields, { idOf }: Adaptation): Fields {
  const { call_id, content, output } = item;
  return {
    ...item,
    ...(typeof call_id === "string" ? { call_id: idOf(call_id) } : {}),
    ...(Array.isArray(content) ? { content: content.map(withUsualUrls) } : {}),
    ...(Array.isArray(output) ? { output: output.map(withUsualUrls) } : {}),
  };
}

function withUsualUrls(part: unknown): unknown {
  const fields = fieldsOf(part);
  const changed = ["image_url", "file_data"].flatMap((field) => {
    const url = fields[field];
    return typeof url === "string" ? [[field, usualDataUrl(url)]] : [];
  });
  return changed.length === 0 ? part : { ...fields, ...Object.fromEntries(changed) };
}

function adaptedTool(tool: unknown, field: "input_schema" | "parameters", { dialect }: Adaptation): unknown {
  const fields = fieldsOf(tool);
  const given = fields[field];
  if (!isJsonObject(given)) return tool;
  const { parameters, note } = adaptedSchema(given, { allowed: dialect.argument_names, is_own: true });
  const described = note === "" ? {} : { description: withNote(fields.description, note) };
  return { ...fields, ...described, [field]: parameters };
}
