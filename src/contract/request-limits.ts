import { z } from "@hono/zod-openapi";

/** Limits of requests with conversations, which can be very large. They are checked before validation. */

/** Lists up to this length are validated in full. */
const SHORT_LIST = 1_000;

/** Cuts a long list after its first error. All errors of 20,000 items take 0.1 s, and only one is reported. */
export function upToFault(item: z.ZodType): (list: unknown) => unknown {
  return (list) => {
    if (!Array.isArray(list) || list.length <= SHORT_LIST) return list;
    const fault = list.findIndex((each) => !item.safeParse(each).success);
    return fault === -1 ? list : list.slice(0, fault + 1);
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
export const MAX_PIECES = 20_000;

/** The most fields of one object of a request. No provider has half as many. */
const MAX_FIELDS = 200;
/** Maps whose keys the caller chooses. */
const MAPS = new Set(["metadata", "client_metadata", "logit_bias", "parameters", "schema", "input_schema"]);

/**
 * Rejects objects with too many fields before validation, because 90,000 fields take 0.2 s. The whole request has no
 * param, so its error names the field `main`.
 */
export function countedFields(main: string) {
  return (value: unknown, ctx: z.RefinementCtx): unknown => {
    const path = wideObject(value);
    if (path === null) return value;
    const message = `an object of at most ${MAX_FIELDS} fields`;
    ctx.addIssue({ code: "custom", message, path: path.length > 0 ? path : [main] });
    return z.NEVER;
  };
}

/** The path of an object with too many fields; null when there is none. */
function wideObject(value: unknown): (string | number)[] | null {
  if (value === null || typeof value !== "object") return null;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  if (Array.isArray(keys) && keys.length > MAX_FIELDS) return [];
  for (const key of keys) {
    const path = MAPS.has(String(key)) ? null : wideObject((value as Record<string | number, unknown>)[key]);
    if (path !== null) return [key, ...path];
  }
  return null;
}
