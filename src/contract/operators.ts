import { createRoute, z } from "@hono/zod-openapi";
import { boundInput, failures, instantSchema, listQuerySchema, nextCursorSchema, uuidSchema } from "./common.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";

/** Operators: the log of their acts, and their keys. Contract 8. */

const tags = ["Operator"];
const security = [{ operator_key: [] as string[] }];

/** Every kind of act that the log has. */
export const ACTS = [
  "user.create",
  "user.update",
  "user.suspend",
  "user.resume",
  "user.erase",
  "user.export",
  "tokens.grant",
  "subscription.set",
  "invoice.settle",
  "configuration.reload",
  "clock.set",
] as const;

const stateSchema = z.record(z.string(), z.unknown()).nullable();
export const actSchema = z
  .object({
    id: uuidSchema,
    seq: z.number().int().openapi({ description: "numbered without a gap" }),
    who: z
      .object({ key_id: uuidSchema.nullable(), name: z.string() })
      .openapi({ description: "the operator key; `key_id` null: PURSER_ADMIN_KEY" }),
    what: z.enum(ACTS),
    target: z.object({ type: z.string(), id: z.string().nullable() }),
    user_id: uuidSchema.nullable().openapi({ description: "the user whom the act concerns" }),
    before: stateSchema,
    after: stateSchema.openapi({ description: "an e-mail address is null once its user is erased" }),
    reason: z.string().nullable(),
    request_id: z.string(),
    at: instantSchema,
    hash: z.string().openapi({ description: "SHA-256 of the act and of the hash before" }),
  })
  .openapi("OperatorAct");
export type ActRecord = z.infer<typeof actSchema>;

export const listActs = createRoute({
  method: "get",
  path: "/api/v1/admin/acts",
  tags,
  summary: "The log of operators' acts, newest first; as CSV oldest first",
  security,
  request: {
    query: listQuerySchema.extend({
      what: z.enum(ACTS).optional(),
      key_id: z.uuid().optional().openapi({ description: "acts by this operator key" }),
      user_id: z.uuid().optional().openapi({ description: "acts that concern this user" }),
      from: boundInput.optional(),
      to: boundInput.optional(),
      format: formatSchema,
    }),
  },
  responses: {
    200: jsonOrCsv(
      z.object({ acts: z.array(actSchema), next_cursor: nextCursorSchema }),
      "a page of acts; as CSV all of them",
    ),
    ...failures(400, 404),
  },
});
