import { createRoute, z } from "@hono/zod-openapi";
import { createdApiKeySchema, userLimitsInput } from "./accounts.ts";
import { bucketSchema, grantSourceSchema, planSchema, profileSchema } from "./billing.ts";
import {
  boundInput,
  failures,
  instantInput,
  instantSchema,
  json,
  jsonBody,
  listQuerySchema,
  nextCursorSchema,
  textSchema,
  uuidSchema,
} from "./common.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { reasonQuery, reasonSchema, withReason } from "./operators.ts";
import { INVOICE_STATUSES, invoiceSchema, purchaseSchema, subscriptionSchema } from "./payments.ts";

/** The operator's API: contract 8. */

/** Limited like PURSER_TEST_CLOCK: the expiry of a grant at this instant can still be stored. */
const clockInput = instantInput.refine((now) => now < "2200", "an instant before the year 2200");

const tags = ["Operator"];
const security = [{ operator_key: [] as string[] }];
const idParams = z.object({ id: z.string() });

const adminUserSchema = profileSchema
  .extend({ suspended_at: instantSchema.nullable(), limits: z.union([userLimitsInput, z.null()]) })
  .openapi("AdminUser");
const userAnswer = json(adminUserSchema, "the user");

export const createUser = createRoute({
  method: "post",
  path: "/api/v1/admin/users",
  tags,
  summary: "Create a user with a first API key",
  security,
  request: jsonBody(
    z.strictObject({
      email: z.email().max(254),
      trial: z.boolean().default(true).openapi({ description: "false: no trial, no bonus, an empty account" }),
      reason: reasonSchema,
    }),
  ),
  responses: {
    201: json(z.object({ user: adminUserSchema, api_key: createdApiKeySchema }), "the key is shown this once"),
    ...failures(400, 404),
    409: json(z.unknown(), "the address is taken"),
  },
});

export const listUsers = createRoute({
  method: "get",
  path: "/api/v1/admin/users",
  tags,
  summary: "Users, newest first",
  security,
  request: {
    query: listQuerySchema.extend({
      search: textSchema(254).optional().openapi({ description: "a part of the address, or the whole id" }),
      email: textSchema(254).min(1).optional().openapi({ description: "the whole address, in upper or lower case" }),
    }),
  },
  responses: {
    200: json(z.object({ users: z.array(adminUserSchema), next_cursor: nextCursorSchema }), "a page of users"),
    ...failures(400, 404),
  },
});

export const getUser = createRoute({
  method: "get",
  path: "/api/v1/admin/users/{id}",
  tags,
  summary: "One user",
  security,
  request: { params: idParams },
  responses: { 200: userAnswer, ...failures(404) },
});

export const updateUser = createRoute({
  method: "patch",
  path: "/api/v1/admin/users/{id}",
  tags,
  summary: "Correct a user",
  description: "Another e-mail address ends the user's sessions and invalidates mailed links.",
  security,
  request: {
    params: idParams,
    ...jsonBody(
      z.strictObject({
        email: z.email().max(254).optional(),
        limits: z
          .union([userLimitsInput, z.null()])
          .optional()
          .openapi({ description: "replaces the limits that are given; null removes all" }),
        reason: reasonSchema,
      }),
    ),
  },
  responses: { 200: userAnswer, ...failures(400, 404, 409) },
});

export const deleteUser = createRoute({
  method: "delete",
  path: "/api/v1/admin/users/{id}",
  tags,
  summary: "Erase a user: keys revoked, personal data gone, the ledger kept",
  security,
  request: { params: idParams, query: reasonQuery },
  responses: { 204: { description: "erased" }, ...failures(404) },
});

const suspension = (path: string, summary: string) =>
  createRoute({
    method: "post",
    path,
    tags,
    summary,
    security,
    request: { params: idParams, ...withReason },
    responses: { 200: userAnswer, ...failures(400, 404) },
  });
export const suspendUser = suspension("/api/v1/admin/users/{id}/suspend", "Refuse every request of the user");
export const resumeUser = suspension("/api/v1/admin/users/{id}/resume", "Serve the user again");

export const grantTokens = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/grants",
  tags,
  summary: "Grant tokens",
  security,
  request: {
    params: idParams,
    ...jsonBody(
      z.strictObject({
        amount_tokens: z.number().int().min(1).max(1e15),
        source: grantSourceSchema,
        expires_at: instantInput.optional().openapi({ description: "default: 12 months from now" }),
        note: textSchema(500).optional(),
        reason: reasonSchema,
      }),
    ),
  },
  responses: { 201: json(bucketSchema, "the new bucket"), ...failures(400, 404) },
});

export const listPlansOnOffer = createRoute({
  method: "get",
  path: "/api/v1/admin/plans",
  tags,
  summary: "Plans that a user can be given",
  security,
  responses: { 200: json(z.object({ plans: z.array(planSchema) }), "the plans"), ...failures(404) },
});

export const subscribeUser = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/subscription",
  tags,
  summary: "Subscribe a user as if paid, renewing, or change their plan",
  security,
  request: { params: idParams, ...jsonBody(z.strictObject({ plan_id: z.string(), reason: reasonSchema })) },
  responses: {
    200: json(subscriptionSchema, "the subscription, changed"),
    201: json(subscriptionSchema, "the new subscription"),
    ...failures(400, 404, 409),
  },
});

/** A list of all users: a window of time, and CSV. */
const listOfAllQuery = listQuerySchema.extend({
  from: boundInput.optional().openapi({ description: "created then or later: an instant, or a day, its start in UTC" }),
  to: boundInput.optional().openapi({ description: "created before: as `from`" }),
  format: formatSchema,
});

const adminInvoiceSchema = invoiceSchema.extend({ user_id: uuidSchema }).openapi("AdminInvoice");

export const listAllInvoices = createRoute({
  method: "get",
  path: "/api/v1/admin/invoices",
  tags,
  summary: "Invoices of overage of all users, newest first; as CSV oldest first",
  security,
  request: { query: listOfAllQuery.extend({ status: z.enum(INVOICE_STATUSES).optional() }) },
  responses: {
    200: jsonOrCsv(
      z.object({ invoices: z.array(adminInvoiceSchema), next_cursor: nextCursorSchema }),
      "a page of invoices; as CSV all of them",
    ),
    ...failures(400, 404),
  },
});

const PURCHASE_STATES = ["pending", "succeeded", "failed", "refunded", "mismatch"] as const;
const purchaseState = z.enum(PURCHASE_STATES).openapi({
  description: "mismatch: the provider billed another amount or currency than ordered, so nothing was granted",
});
const adminPurchaseSchema = purchaseSchema
  .extend({
    user_id: uuidSchema,
    status: purchaseState,
    purpose: z.enum(["top_up", "period", "upgrade"]),
    provider: z.string(),
    reference: z.string().nullable().openapi({ description: "the provider's id of the payment" }),
    billed: z
      .object({ amount_cents: z.number().int(), currency: z.string() })
      .nullable()
      .openapi({ description: "the bill of a mismatch, instead of `amount_cents` and `currency`" }),
  })
  .openapi("AdminPurchase");

export const listAllPurchases = createRoute({
  method: "get",
  path: "/api/v1/admin/purchases",
  tags,
  summary: "Top-ups, upgrades and periods of all users, newest first; as CSV oldest first",
  security,
  request: { query: listOfAllQuery.extend({ status: purchaseState.optional() }) },
  responses: {
    200: jsonOrCsv(
      z.object({ purchases: z.array(adminPurchaseSchema), next_cursor: nextCursorSchema }),
      "a page of purchases; as CSV all of them",
    ),
    ...failures(400, 404),
  },
});

export const refundPurchase = createRoute({
  method: "post",
  path: "/api/v1/admin/purchases/{id}/refund",
  tags,
  summary: "Return all money of a purchase through its provider; its tokens are taken back",
  security,
  request: {
    params: idParams,
    ...jsonBody(z.strictObject({ reason: textSchema(500).min(1).openapi({ description: "for the log of acts" }) })),
  },
  responses: { 200: json(adminPurchaseSchema, "the purchase"), ...failures(400, 404, 409, 503) },
});

export const settleInvoice = createRoute({
  method: "put",
  path: "/api/v1/admin/invoices/{id}",
  tags,
  summary: "Note what became of an invoice that the operator collects",
  security,
  request: {
    params: idParams,
    ...jsonBody(z.strictObject({ status: z.enum(["paid", "unpaid", "void"]), reason: reasonSchema })),
  },
  responses: { 200: json(adminInvoiceSchema, "the invoice"), ...failures(400, 404, 409) },
});

export const getAudit = createRoute({
  method: "get",
  path: "/api/v1/admin/audit",
  tags,
  summary: "Recompute every balance from the ledger",
  security,
  responses: {
    200: json(
      z.object({
        ok: z.boolean(),
        checked: z.record(z.string(), z.number()),
        violations: z.array(z.object({ invariant: z.string(), account_id: z.string().nullable(), detail: z.string() })),
      }),
      "what was checked, and what does not hold",
    ),
    ...failures(404),
  },
});

/** The backup of the whole database, for the operator: contract 8.12. */
export const createBackup = createRoute({
  method: "post",
  path: "/api/v1/admin/backup",
  tags,
  summary: "Back up the database",
  security,
  request: withReason,
  responses: {
    200: {
      description:
        "one consistent state of all tables, as `purser restore` reads it: JSON lines, compressed with gzip. An error after the beginning ends the connection; purser restore rejects such a file",
      content: { "application/gzip": { schema: z.string().openapi({ format: "binary" }) } },
    },
    ...failures(400, 404, 409, 503),
  },
});

export const reload = createRoute({
  method: "post",
  path: "/api/v1/admin/reload",
  tags,
  summary: "Reload PURSER_CONFIG and the catalogue on this node, all or nothing",
  security,
  request: withReason,
  responses: {
    200: json(
      z.object({
        price_version: z.string().nullable().openapi({ description: "names the price list in force" }),
        models: z.number().int().openapi({ description: "models on offer" }),
        plans: z.number().int(),
      }),
      "new calls have the new models, prices, plans and limits",
    ),
    ...failures(400, 404),
  },
});

const clockAnswer = json(z.object({ now: instantSchema }), "the time of the clock");

export const getClock = createRoute({
  method: "get",
  path: "/api/v1/admin/clock",
  tags,
  summary: "The time of the test clock",
  security,
  responses: { 200: clockAnswer, ...failures(404) },
});

export const putClock = createRoute({
  method: "put",
  path: "/api/v1/admin/clock",
  tags,
  summary: "Set the test clock; answers when all that fell due on the way is done",
  security,
  request: jsonBody(z.strictObject({ now: clockInput, reason: reasonSchema })),
  responses: { 200: clockAnswer, ...failures(400, 404) },
});
