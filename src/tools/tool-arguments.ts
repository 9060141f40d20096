import type { ToolContract } from "../contract/tools/fields.ts";

/** What nests deeper than this no tool asks for, and neither the journal nor a serializer takes it at any depth. */
const MAX_DEPTH = 200;

/** What a model wrote as a tool's arguments, as a value; undefined when it is no JSON, or nests too deeply. */
export function argumentsValue(text: string): unknown {
  try {
    return isTooDeep(text) ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Brackets in strings count as well: then the arguments are refused for no worse than their oddity. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const character of text) {
    if (character === "[" || character === "{") depth += 1;
    else if (character === "]" || character === "}") depth -= 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

/** What a model wrote as a tool's arguments: parsed, or a sentence for the model about what is wrong with them. */
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
