import { createdApiKeySchema, userLimitsInput } from "./accounts.ts";
import { bucketSchema, grantSourceSchema, planSchema, profileSchema } from "./billing.ts";
import { OPERATOR_ROLES } from "./caller.ts";
import { instantInput, instantSchema, json, listQuerySchema, textSchema, uuidSchema, windowQuery } from "./common.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { reasonBody, reasonQuery, reasonSchema } from "./operators.ts";
import { INVOICE_STATUSES, invoiceSchema, purchaseSchema, subscriptionSchema } from "./payments.ts";
import { readOnlyFields } from "./read-only.ts";
import { operatorRoutes, pageSchema } from "./routes.ts";
import { z } from "./zod.ts";

/** The operator's API: contract 8. */

/** Limited like PURSER_TEST_CLOCK: the expiry of a grant at this instant can still be stored. */
const clockInput = instantInput.refine((now) => now < "2200", "an instant before the year 2200");

const routes = operatorRoutes();

const adminUserSchema = profileSchema
  .extend({ suspended_at: instantSchema.nullable(), limits: z.union([userLimitsInput, z.null()]) })
  .openapi("AdminUser");
const userAnswer = json(adminUserSchema, "the user");

export const createUser = routes.post("/api/v1/admin/users", {
  summary: "Create a user with a first API key",
  body: z.strictObject({
    email: z.email().max(254),
    trial: z.boolean().default(true).openapi({ description: "false: no trial, no bonus, an empty account" }),
    reason: reasonSchema,
  }),
  answers: {
    201: json(z.object({ user: adminUserSchema, api_key: createdApiKeySchema }), "the key is shown this once"),
    409: json(z.unknown(), "the address is taken"),
  },
});

export const listUsers = routes.get("/api/v1/admin/users", {
  summary: "Users, newest first",
  query: listQuerySchema.extend({
    search: textSchema(254).optional().openapi({ description: "a part of the address, or the whole id" }),
    email: textSchema(254).min(1).optional().openapi({ description: "the whole address, in upper or lower case" }),
  }),
  answers: { 200: json(pageSchema({ users: adminUserSchema }), "a page of users") },
});

export const getUser = routes.get("/api/v1/admin/users/{id}", { summary: "One user", answers: { 200: userAnswer } });

export const USER_READ_ONLY = {
  fixed: ["id", "is_trial", "trial_ends_at", "created_at", "plan", "suspended_at"],
  moving: ["token_balance", "balance"],
} as const;

export const updateUser = routes.patch("/api/v1/admin/users/{id}", {
  summary: "Correct a user",
  description: "Another e-mail address ends the user's sessions and invalidates mailed links.",
  body: z.strictObject({
    email: z.email().max(254).optional(),
    limits: z
      .union([userLimitsInput, z.null()])
      .optional()
      .openapi({ description: "replaces the limits that are given; null removes all" }),
    operator_role: z
      .enum(OPERATOR_ROLES)
      .nullable()
      .optional()
      .openapi({ description: "what the user's sessions may do as an operator; null: no operator any more" }),
    reason: reasonSchema,
    ...readOnlyFields(USER_READ_ONLY),
  }),
  answers: { 200: userAnswer },
  fails: [409],
});

export const deleteUser = routes.delete("/api/v1/admin/users/{id}", {
  summary: "Erase a user: keys revoked, personal data gone, the ledger kept",
  query: reasonQuery,
  answers: { 204: { description: "erased" } },
});

export const suspendUser = routes.post("/api/v1/admin/users/{id}/suspend", {
  summary: "Refuse every request of the user",
  optional_body: reasonBody,
  answers: { 200: userAnswer },
});

export const resumeUser = routes.post("/api/v1/admin/users/{id}/resume", {
  summary: "Serve the user again",
  optional_body: reasonBody,
  answers: { 200: userAnswer },
});

export const grantTokens = routes.post("/api/v1/admin/users/{id}/grants", {
  summary: "Grant tokens",
  body: z.strictObject({
    amount_tokens: z.number().int().min(1).max(1e15),
    source: grantSourceSchema,
    expires_at: instantInput.optional().openapi({ description: "default: 12 months from now" }),
    note: textSchema(500).optional(),
    reason: reasonSchema,
  }),
  answers: { 201: json(bucketSchema, "the new bucket") },
});

export const listPlansOnOffer = routes.get("/api/v1/admin/plans", {
  summary: "Plans that a user can be given",
  answers: { 200: json(z.object({ plans: z.array(planSchema) }), "the plans") },
});

export const subscribeUser = routes.post("/api/v1/admin/users/{id}/subscription", {
  summary: "Subscribe a user as if paid, renewing, or change their plan",
  body: z.strictObject({ plan_id: z.string(), reason: reasonSchema }),
  answers: {
    200: json(subscriptionSchema, "the subscription, changed"),
    201: json(subscriptionSchema, "the new subscription"),
  },
  fails: [409],
});

/** A list of all users: a window of time, and CSV. */
const listOfAllQuery = listQuerySchema.extend({
  ...windowQuery("created"),
  format: formatSchema,
});

const adminInvoiceSchema = invoiceSchema.extend({ user_id: uuidSchema }).openapi("AdminInvoice");
/** The user's address, in lists of all users. */
const userEmail = { user_email: z.string().nullable().openapi({ description: "null: the user was erased" }) };

export const listAllInvoices = routes.get("/api/v1/admin/invoices", {
  summary: "Invoices of overage of all users, newest first; as CSV oldest first",
  query: listOfAllQuery.extend({ status: z.enum(INVOICE_STATUSES).optional() }),
  answers: {
    200: jsonOrCsv(
      pageSchema({ invoices: adminInvoiceSchema.extend(userEmail).openapi("ListedInvoice") }),
      "a page of invoices; as CSV all of them",
    ),
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

export const listAllPurchases = routes.get("/api/v1/admin/purchases", {
  summary: "Top-ups, upgrades and periods of all users, newest first; as CSV oldest first",
  query: listOfAllQuery.extend({ status: purchaseState.optional() }),
  answers: {
    200: jsonOrCsv(
      pageSchema({ purchases: adminPurchaseSchema.extend(userEmail).openapi("ListedPurchase") }),
      "a page of purchases; as CSV all of them",
    ),
  },
});

export const refundPurchase = routes.post("/api/v1/admin/purchases/{id}/refund", {
  summary: "Return all money of a purchase through its provider; its tokens are taken back",
  body: z.strictObject({ reason: textSchema(500).min(1).openapi({ description: "for the log of acts" }) }),
  answers: { 200: json(adminPurchaseSchema, "the purchase") },
  fails: [409, 503],
});

export const settleInvoice = routes.put("/api/v1/admin/invoices/{id}", {
  summary: "Note what became of an invoice that the operator collects",
  body: z.strictObject({ status: z.enum(["paid", "unpaid", "void"]), reason: reasonSchema }),
  answers: { 200: json(adminInvoiceSchema, "the invoice") },
  fails: [409],
});

export const getAudit = routes.get("/api/v1/admin/audit", {
  summary: "Recompute every balance from the ledger",
  answers: {
    200: json(
      z.object({
        ok: z.boolean(),
        checked: z.record(z.string(), z.number()),
        violations: z.array(z.object({ invariant: z.string(), account_id: z.string().nullable(), detail: z.string() })),
      }),
      "what was checked, and what does not hold",
    ),
  },
});

/** The backup of the whole database, for the operator: contract 8.12. */
export const createBackup = routes.post("/api/v1/admin/backup", {
  summary: "Back up the database",
  optional_body: reasonBody,
  answers: {
    200: {
      description:
        "one consistent state of all tables, as `purser restore` reads it: JSON lines, compressed with gzip. An error after the beginning ends the connection; purser restore rejects such a file",
      content: { "application/gzip": { schema: z.string().openapi({ format: "binary" }) } },
    },
  },
  fails: [409, 503],
});

const clockAnswer = json(z.object({ now: instantSchema }), "the time of the clock");

export const getClock = routes.get("/api/v1/admin/clock", {
  summary: "The time of the test clock",
  answers: { 200: clockAnswer },
});

export const putClock = routes.put("/api/v1/admin/clock", {
  summary: "Set the test clock; answers when all that fell due on the way is done",
  body: z.strictObject({ now: clockInput, reason: reasonSchema }),
  answers: { 200: clockAnswer },
});
