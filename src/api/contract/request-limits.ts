import { z } from "@hono/zod-openapi";
import { isTurnUsed, untilTurn } from "../../platform/lib/event-loop-turn.ts";

/** Limits of requests with conversations, which can be very large. They are checked before validation. */

/** Lists up to this length are validated in full. */
export const SHORT_LIST = 32;

/**
 * Cuts a long list after its first error, and looks for it in slices. All errors of 20,000 items take 0.1 s, and only
 * one is reported.
 */
export function upToFault(item: z.ZodType): (list: unknown) => unknown {
  const cut = async (list: readonly unknown[]): Promise<readonly unknown[]> => {
    for (const [index, each] of list.entries()) {
      if (isTurnUsed()) await untilTurn();
      if (!(await item.safeParseAsync(each)).success) return list.slice(0, index + 1);
    }
    await untilTurn();
    return list;
  };
  // The generator of the reference parses null, and cannot wait.
  return (list) => (Array.isArray(list) && list.length > SHORT_LIST ? cut(list) : list);
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
    if (count <= MAX_PIECES) return upToFault(item)(value);
    ctx.addIssue({ code: "custom", message: `a list of at most ${MAX_PIECES} ${pieces}` });
    return z.NEVER;
  };
}

/** Objects that are counted before the next look at the clock. */
export const COUNTED_AT_ONCE = 64;
/** The most fields of one object of a request. No provider has half as many. */
const MAX_FIELDS = 200;
/** Maps whose keys the caller chooses. */
const MAPS = new Set(["metadata", "client_metadata", "logit_bias", "parameters", "schema", "input_schema"]);

/**
 * Rejects objects with too many fields before validation, because 90,000 fields take 0.2 s. The whole request has no
 * param, so its error names the field `main`. Answers at once unless the request is so large that it uses up its turn.
 */
export function countedFields(main: string) {
  const judge = (value: unknown, wide: Place | null, ctx: z.RefinementCtx): unknown => {
    if (wide === null) return value;
    const path = pathOf(wide);
    const message = `an object of at most ${MAX_FIELDS} fields`;
    ctx.addIssue({ code: "custom", message, path: path.length > 0 ? path : [main] });
    return z.NEVER;
  };
  return (value: unknown, ctx: z.RefinementCtx): unknown => {
    if (value === null || typeof value !== "object") return value;
    const open: Place[] = [{ value, key: "", within: null }];
    const wide = wideObject(open);
    if (wide !== null || open.length === 0) return judge(value, wide, ctx);
    return wideObjectLater(open).then((found) => judge(value, found, ctx));
  };
}

interface Place {
  value: object;
  key: string | number;
  within: Place | null;
}

/** An object with too many fields among `open` and what is in them. Null: none so far, and `open` has the rest. */
function wideObject(open: Place[]): Place | null {
  const add = (child: unknown, key: string | number, within: Place) => {
    if (child !== null && typeof child === "object") open.push({ value: child, key, within });
  };
  let counted = 0;
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    const { value } = place;
    counted += 1;
    if (Array.isArray(value)) {
      for (const [index, child] of value.entries()) add(child, index, place);
    } else {
      const keys = Object.keys(value);
      if (keys.length > MAX_FIELDS) return place;
      for (const key of keys) if (!MAPS.has(key)) add(value[key as never], key, place);
    }
    if (counted % COUNTED_AT_ONCE === 0 && isTurnUsed()) return null;
  }
  return null;
}

async function wideObjectLater(open: Place[]): Promise<Place | null> {
  let wide: Place | null = null;
  while (wide === null && open.length > 0) {
    await untilTurn();
    wide = wideObject(open);
  }
  return wide;
}

function pathOf({ key, within }: Place): (string | number)[] {
  return within === null ? [] : [...pathOf(within), key];
}
