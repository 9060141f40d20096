import { instantSchema } from "./common.ts";
import { z } from "./zod.ts";

/** The rotation of a secret that signs deliveries: a trigger's (contract 6.17) and a webhook endpoint's (5.13.5). */

const MAX_OVERLAP_HOURS = 168;
/** `use`: "is accepted" or another act of the service, which a former secret shares with the present one. */
export const overlapSchema = (use: string) =>
  z
    .number()
    .int()
    .min(0)
    .max(MAX_OVERLAP_HOURS)
    .default(24)
    .openapi({ description: `how long the former secret ${use} too; 0: no former secret does any more` });

export const formerSecretUntil = (use: string) =>
  instantSchema.nullable().openapi({ description: `until then a former secret ${use} too; null: none does` });

/** The message of an object without the field `secret`, which only a rotation changes. `path`: of its owner. */
export function secretIsRotated(path: string) {
  const advice = `Replace the secret with POST ${path}/rotate.`;
  return ({ code, keys }: { code?: string; keys?: readonly string[] }) =>
    code === "unrecognized_keys" && keys?.length === 1 && keys[0] === "secret" ? advice : undefined;
}
