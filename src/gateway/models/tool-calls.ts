import type { AnyToolCall, Tool, ToolCall } from "../../api/contract/completions.ts";

/** The tool's name and the text that the model gives it: a function's arguments or a custom tool's input. */
export function calledFunction(call: AnyToolCall): ToolCall["function"] {
  return call.type === "custom" ? { name: call.custom.name, arguments: call.custom.input } : call.function;
}

/** The name that a call of the tool has. */
export function toolName(tool: Tool): string {
  return tool.type === "custom" ? tool.custom.name : tool.function.name;
}
