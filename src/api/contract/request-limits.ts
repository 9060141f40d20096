import { z } from "./zod.ts";

/** Limits of requests with conversations, which can be very large. They are checked before validation. */

/** Lists up to this length are validated in full. */
const SHORT_LIST = 32;

/** Cuts a long list after its first error, because only one is reported. */
export function firstInvalid(item: z.ZodType): (list: unknown) => unknown {
  return (list) => {
    if (!Array.isArray(list) || list.length <= SHORT_LIST) return list;
    const at = list.findIndex((each) => !item.safeParse(each).success);
    return at === -1 ? list : list.slice(0, at + 1);
  };
}

/** An object whose keys are not validated. */
export const mapSchema = z
  .custom<Record<string, unknown>>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "an object",
  )
  .openapi({ type: "object", additionalProperties: {} });

/** Messages, their parts and tool calls together: far more than any model's context holds. */
const MAX_PIECES = 10_000;

/**
 * Counts the entries of a conversation and what is in their lists, before anything is validated: to tell what is wrong
 * with each of a million pieces takes seconds. `pieces` names them for the caller.
 */
export function countedList(item: z.ZodType, pieces: string, listsOf: (entry: never) => unknown[]) {
  const measureSize = (list: unknown) => (Array.isArray(list) ? list.length : 0);
  return (value: unknown, ctx: z.RefinementCtx): unknown => {
    if (!Array.isArray(value)) return value;
    let count = value.length;
    for (const entry of value as never[]) {
      if (count > MAX_PIECES) break;
      for (const list of listsOf(entry)) count += measureSize(list);
    }
    if (count <= MAX_PIECES) return firstInvalid(item)(value);
    ctx.addIssue({ code: "custom", message: `a list of at most ${MAX_PIECES} ${pieces}` });
    return z.NEVER;
  };
}
