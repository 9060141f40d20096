/** What Claude rejects in a request, in Anthropic's API and behind servers with OpenAI's: the first fault, or null. */

const ID = /^[a-zA-Z0-9_-]+$/;
const NAME = /^[a-zA-Z0-9_.-]{1,64}$/;
const PICTURES = ["image/jpeg", "image/png", "image/gif", "image/webp"];

// biome-ignore lint/suspicious/noExplicitAny: requests of two APIs
type Any = any;

export function claudeFault({ system, messages, tools }: Any): string | null {
  const faults = [
    ...(Array.isArray(system) ? system : system === undefined ? [] : [{ type: "text", text: system }]).map(blockFault),
    ...messages.flatMap(messageFaults),
    ...(tools ?? []).map(toolFault),
  ];
  return faults.find((fault) => fault !== null) ?? null;
}

function messageFaults({ role, content, tool_calls = [], tool_call_id }: Any): (string | null)[] {
  const is_call = (tool_calls ?? []).length > 0;
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  if (blocks.length === 0 && !is_call) return [`${role} message has no content`];
  const ids = [...(tool_calls ?? []).map(({ id }: Any) => id), ...(tool_call_id === undefined ? [] : [tool_call_id])];
  return [...blocks.map(blockFault), ...ids.map(idFault)];
}

function blockFault(block: Any): string | null {
  switch (block.type) {
    case "text":
      return String(block.text).trim() === "" ? "text content blocks must contain non-whitespace text" : null;
    case "tool_use":
      return idFault(block.id);
    case "tool_result": {
      const { content, is_error } = block;
      const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
      if (is_error === true && parts.length === 0) return "content cannot be empty if `is_error` is true";
      return parts.map(blockFault).find((fault: string | null) => fault !== null) ?? idFault(block.tool_use_id);
    }
    case "image":
      if (block.source.type !== "base64" || PICTURES.includes(block.source.media_type)) return null;
      return `image.source.base64.media_type: Input should be ${PICTURES.join(", ")}`;
    default:
      return null;
  }
}

function idFault(id: unknown): string | null {
  return ID.test(String(id)) ? null : `tool_use.id: String should match pattern '${ID.source}'`;
}

function toolFault(tool: Any): string | null {
  const schema = tool.input_schema ?? tool.function?.parameters;
  if (schema === undefined) return null;
  if (schema.type !== "object") return "input_schema.type: Field required";
  if (["oneOf", "allOf", "anyOf"].some((key) => schema[key] !== undefined)) {
    return "input_schema does not support oneOf, allOf, or anyOf at the top level";
  }
  return namesIn(schema).every((name) => NAME.test(name))
    ? null
    : `input_schema.properties: Property keys should match pattern '${NAME.source}'`;
}

/** The names of arguments at every depth. */
function namesIn(schema: unknown): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]) => [
    ...(key === "properties" ? Object.keys(value as object) : []),
    ...namesIn(value),
  ]);
}
