import { z } from "@hono/zod-openapi";
import { isTurnUsed, untilTurn } from "../platform/event-loop-turn.ts";

/** Limits of requests with conversations, which can be very large. They are checked before validation. */

/** Lists up to this length are validated in full. */
const SHORT_LIST = 32;

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
export const MAX_PIECES = 10_000;

/** The most fields of one object of a request. No provider has half as many. */
const MAX_FIELDS = 200;
/** Maps whose keys the caller chooses. */
const MAPS = new Set(["metadata", "client_metadata", "logit_bias", "parameters", "schema", "input_schema"]);

/**
 * Rejects objects with too many fields before validation, because 90,000 fields take 0.2 s. The whole request has no
 * param, so its error names the field `main`.
 */
export function countedFields(main: string) {
  const counted = async (value: object, ctx: z.RefinementCtx): Promise<unknown> => {
    const path = await wideObject(value);
    if (path === null) return value;
    const message = `an object of at most ${MAX_FIELDS} fields`;
    ctx.addIssue({ code: "custom", message, path: path.length > 0 ? path : [main] });
    return z.NEVER;
  };
  return (value: unknown, ctx: z.RefinementCtx): unknown =>
    value !== null && typeof value === "object" ? counted(value, ctx) : value;
}

interface Place {
  value: object;
  key: string | number;
  within: Place | null;
}

/** The path of an object with too many fields; null when there is none. Searches in slices. */
async function wideObject(value: object): Promise<(string | number)[] | null> {
  const open: Place[] = [];
  const add = (child: unknown, key: string | number, within: Place | null) => {
    if (child !== null && typeof child === "object") open.push({ value: child, key, within });
  };
  add(value, "", null);
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    if (isTurnUsed()) await untilTurn();
    if (Array.isArray(place.value)) {
      for (const [index, child] of place.value.entries()) add(child, index, place);
      continue;
    }
    if (Object.keys(place.value).length > MAX_FIELDS) return pathOf(place);
    for (const [key, child] of Object.entries(place.value)) if (!MAPS.has(key)) add(child, key, place);
  }
  return null;
}

function pathOf({ key, within }: Place): (string | number)[] {
  return within === null ? [] : [...pathOf(within), key];
}
