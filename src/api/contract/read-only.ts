import { errors } from "../../kernel/errors.ts";
import { stableJson } from "../../platform/lib/json.ts";
import { z } from "./zod.ts";

/** A record that was read, edited and sent back in a PUT or PATCH is a change of the edited fields: contract 2.7.1. */

/** The read-only fields of a record. */
export interface ReadOnlyFields {
  readonly fixed: readonly string[];
  /** Fields that change without a request, so a record that was read a minute ago may have others. */
  readonly moving: readonly string[];
}

/** The read-only fields for the body of a PUT or PATCH. */
export function readOnlyFields<const Fields extends ReadOnlyFields>({ fixed, moving }: Fields) {
  const field = z.unknown().optional().openapi({ description: "read-only: accepted when unchanged" });
  return Object.fromEntries([...fixed, ...moving].map((name) => [name, field])) as Record<
    Fields["fixed" | "moving"][number],
    z.ZodOptional<z.ZodUnknown>
  >;
}

/**
 * The fields of a body that are not read-only. Throws 400 for a read-only one that differs from the record.
 * @param record reads the record. `path`: before the names of the fields, such as `oauth.`.
 */
export async function changesIn<Given extends object, const Fields extends ReadOnlyFields>(
  given: Given,
  { fixed, moving }: Fields,
  record: () => Promise<object>,
  path = "",
): Promise<Omit<Given, Fields["fixed" | "moving"][number]>> {
  const entries = Object.entries(given);
  const repeated = entries.filter(([name]) => fixed.includes(name));
  const present: Record<string, unknown> = repeated.length === 0 ? {} : { ...(await record()) };
  for (const [name, value] of repeated) {
    if (stableJson(value) === stableJson(present[name])) continue;
    throw errors.invalidValue(
      `${path}${name}`,
      `${path}${name} is read-only, and it is not the present one. Leave it out, or read the record again and send its value.`,
    );
  }
  const changes = entries.filter(([name]) => !fixed.includes(name) && !moving.includes(name));
  return Object.fromEntries(changes) as Omit<Given, Fields["fixed" | "moving"][number]>;
}
