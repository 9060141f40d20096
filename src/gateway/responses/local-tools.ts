import type { InputItem, OutputItem, ResponseTool } from "../../api/contract/responses.ts";
import { fieldsOf, isJsonObject, jsonOrUndefined } from "../../platform/lib/json.ts";

/**
 * Tools that OpenAI defines and the caller executes: `shell`, `local_shell` and `apply_patch`. Models get them as
 * functions whose arguments are the call's action or operation. Their calls come back as OpenAI's own items.
 */

export type LocalToolType = "shell" | "local_shell" | "apply_patch";

interface LocalTool {
  description: string;
  parameters: object;
  /** The field of a call's item with its arguments. */
  field: "action" | "operation";
  /** What that field has at least. */
  least: Readonly<Record<string, unknown>>;
}

const text = { type: "string" };
const texts = { type: "array", items: text };
const milliseconds = { type: "integer", description: "time limit in milliseconds" };
const object = (properties: object, required: string[]) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const DIFF =
  "for create_file: each line of the file, after a +. For update_file: hunks that each begin with a line @@, and have " +
  "context lines after a space, removed lines after a - and added lines after a +";

const LOCAL_TOOLS: Readonly<Record<LocalToolType, LocalTool>> = {
  shell: {
    description: "Runs shell commands, one after the other, and returns their output.",
    parameters: object({ commands: texts, timeout_ms: milliseconds, max_output_length: { type: "integer" } }, [
      "commands",
    ]),
    field: "action",
    least: { commands: [], timeout_ms: null, max_output_length: null },
  },
  local_shell: {
    description: "Runs a command with its arguments, and returns its output.",
    parameters: object({ command: texts, timeout_ms: milliseconds, working_directory: text }, ["command"]),
    field: "action",
    least: { type: "exec", command: [], env: {} },
  },
  apply_patch: {
    description: "Creates, updates or deletes a file.",
    parameters: object(
      {
        type: { type: "string", enum: ["create_file", "update_file", "delete_file"] },
        path: text,
        diff: { type: "string", description: DIFF },
      },
      ["type", "path"],
    ),
    field: "operation",
    least: { type: "update_file", path: "", diff: "" },
  },
};

/** Null for a tool of another type, and for a shell in a container of OpenAI. */
export function localToolType(tool: ResponseTool): LocalToolType | null {
  const { type, environment } = tool as { type: string; environment?: unknown };
  if (!isLocalToolType(type)) return null;
  const { type: place = "local" } = fieldsOf(environment);
  return place === "local" ? type : null;
}

/** Whether a type is one of these tools'. */
export function isLocalToolType(type: string): type is LocalToolType {
  return Object.hasOwn(LOCAL_TOOLS, type);
}

/** The function that stands for such a tool. */
export function localFunction(type: LocalToolType) {
  const { description, parameters } = LOCAL_TOOLS[type];
  return { name: type, description, parameters };
}

type LocalCall = Extract<OutputItem, { type: `${LocalToolType}_call` }>;

/** The item of a call. `arguments_text`: what the model wrote, "" while it still writes. */
export function localCall(
  type: LocalToolType,
  call: { id: string; call_id: string; status: "in_progress" | "completed" },
  arguments_text: string,
): LocalCall {
  const { field, least } = LOCAL_TOOLS[type];
  const given = Object.entries(parsed(arguments_text)).map(([name, value]) => [
    name,
    Array.isArray(least[name]) ? toList(value) : value,
  ]);
  return { type: `${type}_call`, ...call, [field]: { ...least, ...Object.fromEntries(given) } } as LocalCall;
}

/** A client would execute a text in place of a list letter by letter. */
function toList(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  return typeof value === "string" ? [value] : [];
}

function parsed(arguments_text: string): Record<string, unknown> {
  const given = jsonOrUndefined(arguments_text);
  return isJsonObject(given) ? given : {};
}

const ITEM = /^(shell|local_shell|apply_patch)_call(_output)?$/;

/** The input with items of such tools as calls and outputs of functions. */
export function withFunctionItems(input: string | InputItem[]): string | InputItem[] {
  return typeof input === "string" ? input : input.map(asFunctionItem);
}

function asFunctionItem(item: InputItem): InputItem {
  const [, type, is_output] = ITEM.exec(String(item.type)) ?? [];
  if (type === undefined) return item;
  const { id, call_id = id, output, status, ...fields } = item as Record<string, unknown>;
  if (is_output !== undefined) {
    const shown = typeof output === "string" ? output : JSON.stringify(output ?? { status });
    return { type: "function_call_output", call_id, output: shown } as InputItem;
  }
  const { field } = LOCAL_TOOLS[type as LocalToolType];
  return { type: "function_call", call_id, name: type, arguments: JSON.stringify(fields[field]) } as InputItem;
}
