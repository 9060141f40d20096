import type { AnyToolCall, Tool, ToolCall } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";

/** The tool's name and the text that the model gives it: a function's arguments or a custom tool's input. */
export function calledOf(call: AnyToolCall): ToolCall["function"] {
  return call.type === "custom" ? { name: call.custom.name, arguments: call.custom.input } : call.function;
}

/** The name that a call of the tool has. */
export function nameOfTool(tool: Tool): string {
  return tool.type === "custom" ? tool.custom.name : tool.function.name;
}

/** The fields of a message or of a stream's delta that hold generated text, beside its reasoning. */
const TEXT_FIELDS = ["content", "refusal"] as const;

/**
 * All generated text in `choices` of a completion or a chunk: text, reasoning, tool calls. Accepts any value, because a
 * provider may send anything.
 */
export function generatedText(choices: unknown): string {
  if (!Array.isArray(choices)) return "";
  let text = "";
  for (const choice of choices) {
    const { message, delta } = fieldsOf(choice);
    text += textOfMessage(fieldsOf(message ?? delta));
  }
  return text;
}

/** Its UTF-8 bytes. */
export function generatedBytes(choices: unknown): number {
  return Buffer.byteLength(generatedText(choices));
}

function textOfMessage(message: Record<string, unknown>): string {
  // Some servers write their reasoning into both fields.
  let text = textOf(message.reasoning_content) || textOf(message.reasoning);
  for (const field of TEXT_FIELDS) text += textOf(message[field]);
  if (!Array.isArray(message.tool_calls)) return text;
  for (const call of message.tool_calls) {
    const { function: of_function, custom } = fieldsOf(call);
    const { name, arguments: given, input } = { ...fieldsOf(of_function), ...fieldsOf(custom) };
    text += textOf(name) + textOf(given) + textOf(input);
  }
  return text;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
