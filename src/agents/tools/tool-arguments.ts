import type { ToolContract } from "../../api/contract/tool-fields.ts";
import { jsonOrUndefined } from "../../platform/lib/json.ts";

/** No tool needs deeper nesting, and neither the journal nor a serializer accepts unlimited depth. */
const MAX_DEPTH = 200;

/** The value of the arguments that a model wrote; undefined if they are not JSON or nest too deeply. */
export function argumentsValue(text: string): unknown {
  return isTooDeep(text) ? undefined : jsonOrUndefined(text);
}

/** Counts brackets in strings as well. This rejects only very unusual arguments. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const character of text) {
    if (character === "[" || character === "{") depth += 1;
    else if (character === "]" || character === "}") depth -= 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
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
  const problem = [...(issue?.path ?? []), issue?.message ?? ""].join(" ");
  return { problem: `the arguments are not valid: ${problem}` };
}
