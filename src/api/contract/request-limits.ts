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
  const sizeOf = (list: unknown) => (Array.isArray(list) ? list.length : 0);
  return (value: unknown, ctx: z.RefinementCtx): unknown => {
    if (!Array.isArray(value)) return value;
    let count = value.length;
    for (const entry of value as never[]) {
      if (count > MAX_PIECES) break;
      for (const list of listsOf(entry)) count += sizeOf(list);
    }
    if (count <= MAX_PIECES) return firstInvalid(item)(value);
    ctx.addIssue({ code: "custom", message: `a list of at most ${MAX_PIECES} ${pieces}` });
    return z.NEVER;
  };
}

/** The most fields of one object of a request. No provider has half as many. */
const MAX_FIELDS = 200;
/** Maps whose keys the caller chooses. */
const MAPS = new Set(["metadata", "client_metadata", "logit_bias", "parameters", "schema", "input_schema"]);

/**
 * Rejects objects with too many fields before validation, whose errors would take long to find. The whole request has no
 * param, so its error names the field `main`.
 */
export function countedFields(main: string) {
  return (value: unknown, ctx: z.RefinementCtx): unknown => {
    const wide = value !== null && typeof value === "object" ? findWideObject(value) : null;
    if (wide === null) return value;
    const path = pathOf(wide);
    const message = `an object of at most ${MAX_FIELDS} fields`;
    ctx.addIssue({ code: "custom", message, path: path.length > 0 ? path : [main] });
    return z.NEVER;
  };
}

interface Place {
  value: object;
  key: string | number;
  within: Place | null;
}

/** An object with too many fields in `root`; null: there is none. */
function findWideObject(root: object): Place | null {
  const open: Place[] = [{ value: root, key: "", within: null }];
  const add = (child: unknown, key: string | number, within: Place) => {
    if (child !== null && typeof child === "object") open.push({ value: child, key, within });
  };
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    const { value } = place;
    if (Array.isArray(value)) {
      for (const [index, child] of value.entries()) add(child, index, place);
    } else {
      const keys = Object.keys(value);
      if (keys.length > MAX_FIELDS) return place;
      for (const key of keys) if (!MAPS.has(key)) add(value[key as never], key, place);
    }
  }
  return null;
}

function pathOf({ key, within }: Place): (string | number)[] {
  return within === null ? [] : [...pathOf(within), key];
}
