import type { ToolContract } from "../../api/contract/tool-fields.ts";
import { isTooDeep, jsonOrUndefined } from "../../platform/lib/json.ts";

/** The value of the arguments that a model wrote; undefined if they are not JSON or nest too deeply. */
export function argumentsValue(text: string): unknown {
  return isTooDeep(text) ? undefined : jsonOrUndefined(text);
}

/** Parses the arguments that a model wrote. Returns them, or a sentence for the model about the problem. */
export function parsedArguments(
  text: string,
  { arguments: schema, example }: Pick<ToolContract, "arguments" | "example">,
): { arguments: unknown } | { problem: string } {
  const value = argumentsValue(text);
  if (value === undefined) {
    return { problem: `the arguments are not valid JSON; give an object such as ${example}` };
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return { arguments: parsed.data };
  const [issue] = parsed.error.issues;
  const is_missing = issue?.code === "invalid_type" && issue.message.endsWith("received undefined");
  const problem = [...(issue?.path ?? []), is_missing ? "is required" : (issue?.message ?? "")].join(" ");
  return { problem: `the arguments are not valid: ${problem}` };
}
