import { OPERATOR_ROLES, type OperatorRole } from "./caller.ts";
import { instantInput, instantSchema, json, listQuerySchema, textSchema, uuidSchema, windowQuery } from "./common.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { operatorRoutes, pageSchema } from "./routes.ts";
import { z } from "./zod.ts";

/** Operators: the log of their acts, and their keys. Contract 8. */

const routes = operatorRoutes();

/** Why an operator does something. */
export const reasonSchema = textSchema(500).optional().openapi({ description: "for the log of acts" });
/** The optional body of a request that needs none. */
export const reasonBody = z.strictObject({ reason: reasonSchema });
export const reasonQuery = z.object({ reason: reasonSchema });

/** contract 8.1.1: the requests of each role. A request that is not here needs the role `admin`. */
const ROLES: Readonly<Record<OperatorRole, readonly string[]>> = {
  read: ["GET *"],
  support: [
    "GET *",
    "PATCH /api/v1/admin/users/{id}",
    "POST /api/v1/admin/users/{id}/suspend",
    "POST /api/v1/admin/users/{id}/resume",
  ],
  admin: ["*"],
};
const ROLE_PATTERNS = OPERATOR_ROLES.map((role) => {
  const patterns = ROLES[role].map((each) => each.replaceAll("*", ".*").replaceAll("{id}", "[^/]+"));
  return { role, pattern: new RegExp(`^(${patterns.join("|")})$`) };
});

/** The lowest role that may send this request. HEAD counts as GET. */
export function requiredRole(method: string, path: string): OperatorRole {
  const asked = `${method === "HEAD" ? "GET" : method} ${path}`;
  return ROLE_PATTERNS.find(({ pattern }) => pattern.test(asked))?.role ?? "admin";
}

/** Whether a role includes another. */
export function includesRole(role: OperatorRole, required: OperatorRole): boolean {
  return OPERATOR_ROLES.indexOf(role) >= OPERATOR_ROLES.indexOf(required);
}

/** Every kind of act that the log has. */
export const ACTS = [
  "user.create",
  "user.update",
  "user.suspend",
  "user.resume",
  "user.erase",
  "user.export",
  "tokens.grant",
  "tokens.adjust",
  "bucket.close",
  "api_key.create",
  "api_key.revoke",
  "subscription.set",
  "subscription.cancel",
  "purchase.refund",
  "invoice.settle",
  "configuration.reload",
  "backup.create",
  "clock.set",
  "operator_key.create",
  "operator_key.rotate",
  "operator_key.revoke",
] as const;

const stateSchema = z.record(z.string(), z.unknown()).nullable();
export const actSchema = z
  .object({
    id: uuidSchema,
    seq: z.number().int().openapi({ description: "numbered without a gap" }),
    who: z
      .object({ key_id: uuidSchema.nullable(), user_id: uuidSchema.nullable(), name: z.string().nullable() })
      .openapi({
        description:
          "the operator key, or the account with its present address (null once erased); both ids null: PURSER_ADMIN_KEY",
      }),
    what: z.enum(ACTS),
    target: z.object({ type: z.string(), id: z.string().nullable() }),
    user_id: uuidSchema.nullable().openapi({ description: "the user whom the act concerns" }),
    user_email: z.string().nullable().openapi({ description: "the user's present address; null once erased" }),
    before: stateSchema,
    after: stateSchema.openapi({ description: "an e-mail address is null once its user is erased" }),
    reason: z.string().nullable(),
    request_id: z.string(),
    at: instantSchema,
    hash: z.string().openapi({ description: "SHA-256 of the act and of the hash before" }),
  })
  .openapi("OperatorAct");
export type ActRecord = z.infer<typeof actSchema>;

export const listActs = routes.get("/api/v1/admin/acts", {
  summary: "The log of operators' acts, newest first; as CSV oldest first",
  query: listQuerySchema.extend({
    what: z.enum(ACTS).optional(),
    operator_id: z.uuid().optional().openapi({ description: "acts by this operator key or account" }),
    user_id: z.uuid().optional().openapi({ description: "acts that concern this user" }),
    ...windowQuery("recorded"),
    format: formatSchema,
  }),
  answers: { 200: jsonOrCsv(pageSchema({ acts: actSchema }), "a page of acts; as CSV all of them") },
});

const operatorKeySchema = z
  .object({
    id: uuidSchema,
    name: z.string(),
    role: z.enum(OPERATOR_ROLES),
    last_four: z.string(),
    created_at: instantSchema,
    expires_at: instantSchema.nullable(),
    last_used_at: instantSchema.nullable(),
    revoked_at: instantSchema.nullable(),
  })
  .openapi("OperatorKey");
export type OperatorKeyRecord = z.infer<typeof operatorKeySchema>;
const createdOperatorKeySchema = operatorKeySchema
  .extend({ key: z.string().openapi({ description: "the key itself: shown once, never again" }) })
  .openapi("CreatedOperatorKey");

const createOperatorKeySchema = z
  .strictObject({
    name: textSchema(100).min(1),
    role: z.enum(OPERATOR_ROLES),
    expires_at: instantInput.nullable().optional(),
    reason: reasonSchema,
  })
  .openapi("CreateOperatorKey");
export type CreateOperatorKey = z.infer<typeof createOperatorKeySchema>;

export const listOperatorKeys = routes.get("/api/v1/admin/keys", {
  summary: "Named operator keys, newest first, revoked ones included",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ keys: operatorKeySchema }), "a page of keys") },
});

export const createOperatorKey = routes.post("/api/v1/admin/keys", {
  summary: "Create an operator key with a role",
  body: createOperatorKeySchema,
  answers: { 201: json(createdOperatorKeySchema, "the key, shown this once") },
});

export const revokeOperatorKey = routes.delete("/api/v1/admin/keys/{id}", {
  summary: "Revoke an operator key: rejected on every node within a second",
  query: reasonQuery,
  answers: { 204: { description: "revoked" } },
});

export const rotateOperatorKey = routes.post("/api/v1/admin/keys/{id}/rotate", {
  summary: "Replace the key's secret; the old one works for `grace_seconds`",
  body: z.strictObject({ grace_seconds: z.number().int().min(0).max(604_800).default(0), reason: reasonSchema }),
  answers: { 200: json(createdOperatorKeySchema, "the same record with its new secret") },
  fails: [409],
});
