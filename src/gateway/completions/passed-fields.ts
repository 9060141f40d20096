import { CHAT_FIELDS } from "../../api/contract/completions.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";

/**
 * The fields of another API's request that chat completions gets unchanged: all but the `converted` ones and other empty
 * lists, which ask for nothing. Throws 400 for a field of chat completions that is not `validated` in that API: its value
 * would move money unchecked. `instead`: that API's names of such fields.
 */
export function passedFields(
  asked: Readonly<Record<string, unknown>>,
  {
    validated,
    converted,
    instead,
  }: { validated: ReadonlySet<string>; converted: ReadonlySet<string>; instead: ReadonlyMap<string, string> },
): Record<string, unknown> {
  const passed = Object.entries(asked).filter(
    ([field, value]) => !converted.has(field) && (validated.has(field) || !isEmptyList(value)),
  );
  const unchecked = passed.find(([field]) => CHAT_FIELDS.has(field) && !validated.has(field));
  if (unchecked !== undefined) {
    const name = instead.get(unchecked[0]);
    throw gatewayErrors.unsupportedParameter(unchecked[0], name === undefined ? undefined : `send ${name}`);
  }
  return Object.fromEntries(passed);
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** The caller's names of lists of the chat completion, and of fields at the end of a name, such as `.tool_call_id`. */
export interface Origins {
  messages: readonly string[];
  /** The caller's indexes of a message's parts, if some of its parts are not in it. */
  parts?: readonly (readonly number[] | undefined)[];
  tools: readonly string[];
  fields: ReadonlyMap<string, string>;
}

/**
 * The caller's name of a field in `messages` or `tools` of the chat completion: `tools[0].function.name` is
 * `tools[2].name` if two tools before it were left out. `origins` has the caller's name of each entry. Null: the field
 * is in no such list.
 */
export function callersParam(param: string, { fields, parts, ...origins }: Origins): string | null {
  const [, list, index, inside = ""] = /^(messages|tools)\[(\d+)\](?:\.function(?=\.|$))?(.*)$/.exec(param) ?? [];
  const origin = origins[list as keyof typeof origins]?.[Number(index)];
  const places = list === "messages" ? parts?.[Number(index)] : undefined;
  const rest = inside.replace(/^\.content\[(\d+)\]/, (own, at) => {
    const place = places?.[Number(at)];
    return place === undefined ? own : `.content[${place}]`;
  });
  const [of_part, field] = [...fields].find(([end]) => rest.endsWith(end)) ?? ["", ""];
  return origin === undefined ? null : `${origin}${rest.slice(0, rest.length - of_part.length)}${field}`;
}
