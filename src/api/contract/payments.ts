import { createRoute, z } from "@hono/zod-openapi";
import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import { needs } from "./caller.ts";
import {
  emptyBody,
  failures,
  instantSchema,
  json,
  jsonBody,
  listQuerySchema,
  nextCursorSchema,
  tokensSchema,
  uuidSchema,
} from "./common.ts";
import { readOnlyFields } from "./read-only.ts";

/** Subscribing, top-ups and overage: contract 5. */

const centsSchema = z.number().int().openapi({ description: "cents" });
const sandboxSchema = z.literal(true).optional().openapi({ description: "present where no money was moved" });

export const subscriptionSchema = z
  .object({
    plan_id: z.string().nullable(),
    status: z
      .enum(["none", "incomplete", "active", "past_due", "ended"])
      .openapi({ description: "incomplete: `checkout_url` has not been paid yet" }),
    current_period_start: instantSchema.nullable(),
    current_period_end: instantSchema.nullable(),
    cancel_at_period_end: z.boolean(),
    pending_plan_id: z.string().nullable().openapi({ description: "the plan from the period's end on" }),
    checkout_url: z.string().optional().openapi({ description: "where to pay" }),
    sandbox: sandboxSchema,
  })
  .openapi("Subscription");

export const purchaseSchema = z
  .object({
    id: uuidSchema,
    status: z.enum(["pending", "succeeded", "failed", "refunded"]),
    amount_cents: centsSchema,
    refunded_cents: centsSchema,
    currency: z.string(),
    tokens: tokensSchema,
    checkout_url: z
      .string()
      .nullable()
      .openapi({ description: "where to pay; null when there is nothing to do there" }),
    bucket_id: uuidSchema.nullable().openapi({ description: "the tokens, once it is paid" }),
    created_at: instantSchema,
    automatic: z.literal(true).optional().openapi({ description: "present on automatic top-ups" }),
    sandbox: sandboxSchema,
  })
  .openapi("Purchase");

export const overageSchema = z
  .object({
    enabled: z.boolean(),
    eligible: z.boolean().openapi({ description: "an active subscription, and no overage invoice unpaid" }),
    cap_tokens: tokensSchema.nullable().openapi({ description: "default: the plan's included tokens" }),
    used_tokens: tokensSchema,
    held_tokens: tokensSchema,
    remaining_tokens: tokensSchema,
    amount_due_cents: centsSchema.openapi({
      description: "what this period's overage costs, in whole cents; the rest is carried on",
    }),
    invoiced_cents: centsSchema.openapi({ description: "of `amount_due_cents`, invoiced before the period's end" }),
    period_start: instantSchema.nullable(),
    period_end: instantSchema.nullable(),
  })
  .openapi("Overage");

export const OVERAGE_READ_ONLY = {
  fixed: ["enabled", "eligible", "period_start", "period_end"],
  moving: ["used_tokens", "held_tokens", "remaining_tokens", "amount_due_cents", "invoiced_cents"],
} as const;

export const INVOICE_STATUSES = ["open", "paid", "unpaid", "void"] as const;

export const invoiceSchema = z
  .object({
    id: uuidSchema,
    status: z
      .enum(INVOICE_STATUSES)
      .openapi({ description: "unpaid: refused or written off; overage stops until it is paid or void" }),
    amount_cents: centsSchema,
    refunded_cents: centsSchema,
    currency: z.string(),
    tokens: tokensSchema.openapi({ description: "the overage it is for" }),
    collected_by: z
      .enum(["stripe", "sandbox", "operator"])
      .openapi({ description: "operator: nothing is charged here; whoever runs this service asks for the money" }),
    checkout_url: z
      .string()
      .nullable()
      .openapi({ description: "where to pay; null when there is nothing to do there" }),
    created_at: instantSchema,
    sandbox: sandboxSchema,
  })
  .openapi("Invoice");

const urlSchema = z
  .url({ protocol: /^https?$/, error: "an http or https URL such as https://example.com/thanks" })
  .max(2000)
  .openapi({ description: "where the checkout page leads back to" });
const returnUrls = { success_url: urlSchema.optional(), cancel_url: urlSchema.optional() };
const tags = ["Usage and billing"];

const subscriptionAnswer = json(subscriptionSchema, "the subscription");
export const getSubscription = createRoute({
  method: "get",
  path: "/api/v1/billing/subscription",
  tags,
  summary: "The caller's subscription",
  ...needs("billing:read"),
  responses: { 200: json(subscriptionSchema, "status `none` without one"), ...failures(403) },
});

export const subscribe = createRoute({
  method: "post",
  path: "/api/v1/billing/subscription",
  tags,
  summary: "Subscribe, or change plans: up at once, down at the period's end; the present plan takes a change back",
  ...needs("billing:write"),
  request: jsonBody(z.strictObject({ plan_id: z.string(), ...returnUrls })),
  responses: {
    200: json(subscriptionSchema, "the subscription, changed"),
    201: json(subscriptionSchema, "the new subscription"),
    ...failures(400, 402, 403, 409, 503),
  },
});

export const cancelSubscription = createRoute({
  method: "delete",
  path: "/api/v1/billing/subscription",
  tags,
  summary: "Cancel at the period's end",
  ...needs("billing:write"),
  responses: { 200: subscriptionAnswer, ...failures(403, 404) },
});

export const purchase = createRoute({
  method: "post",
  path: "/api/v1/billing/purchase",
  tags,
  summary: "Buy a top-up: 6,250 tokens a cent, good for 12 months",
  ...needs("billing:write"),
  request: jsonBody(
    z.strictObject({
      amount_cents: z.number().int().optional().openapi({ description: "at least 100; or give `tokens`" }),
      tokens: z.number().int().optional().openapi({ description: "billed tokens; the price is rounded up to a cent" }),
      ...returnUrls,
    }),
  ),
  responses: { 201: json(purchaseSchema, "the purchase"), ...failures(400, 402, 403, 409, 503) },
});

export const listPurchases = createRoute({
  method: "get",
  path: "/api/v1/billing/purchases",
  tags,
  summary: "Purchases, newest first",
  ...needs("billing:read"),
  request: { query: listQuerySchema },
  responses: {
    200: json(z.object({ purchases: z.array(purchaseSchema), next_cursor: nextCursorSchema }), "a page of purchases"),
    ...failures(400, 403),
  },
});

export const getPurchase = createRoute({
  method: "get",
  path: "/api/v1/billing/purchases/{id}",
  tags,
  summary: "One purchase",
  ...needs("billing:read"),
  request: { params: z.object({ id: z.string() }) },
  responses: { 200: json(purchaseSchema, "the purchase"), ...failures(403, 404) },
});

const overageAnswer = json(overageSchema, "the overage status");
export const getOverage = createRoute({
  method: "get",
  path: "/api/v1/billing/overage",
  tags,
  summary: "Overage of this period",
  ...needs("billing:read"),
  responses: { 200: overageAnswer, ...failures(403) },
});

export const putOverage = createRoute({
  method: "put",
  path: "/api/v1/billing/overage",
  tags,
  summary: "Set the most overage a period may use",
  ...needs("billing:write"),
  request: jsonBody(
    z.strictObject({
      cap_tokens: z
        .number()
        .int()
        .min(0)
        .max(PURCHASE_CENTS.max * TOKENS_PER_CENT)
        .nullable()
        .openapi({
          description:
            "null: the plan's included tokens. Where the operator collects by hand, at most ten times these, or what 100 dollars buy where that is more",
        }),
      ...readOnlyFields(OVERAGE_READ_ONLY),
    }),
  ),
  responses: { 200: overageAnswer, ...failures(400, 403, 409) },
});

export const enableOverage = createRoute({
  method: "post",
  path: "/api/v1/billing/overage/enable",
  tags,
  summary: "Go on past the plan's tokens, billed as used; for subscribers",
  ...needs("billing:write"),
  request: emptyBody,
  responses: { 200: overageAnswer, ...failures(400, 403, 409) },
});

export const disableOverage = createRoute({
  method: "post",
  path: "/api/v1/billing/overage/disable",
  tags,
  summary: "Disable overage; used overage is invoiced at the end of the period",
  ...needs("billing:write"),
  request: emptyBody,
  responses: { 200: overageAnswer, ...failures(400, 403) },
});

const pauseReasonSchema = z.enum(["payment_declined", "payment_mismatch", "payment_returned"]);
/** Why automatic top-ups stopped until the user resumes them. */
export type PauseReason = z.infer<typeof pauseReasonSchema>;

export const autoTopupSchema = z
  .object({
    enabled: z.boolean(),
    threshold_tokens: tokensSchema.nullable().openapi({ description: "null until it is set, as the two amounts" }),
    amount_cents: centsSchema.nullable(),
    monthly_cap_cents: centsSchema.nullable(),
    status: z.enum(["off", "active", "paused", "cap_reached"]),
    paused_reason: pauseReasonSchema.nullable().openapi({ description: "why nothing is bought until the next PUT" }),
    paused_at: instantSchema.nullable(),
    ordered_this_month_cents: centsSchema.openapi({ description: "of this UTC month, declined orders left out" }),
  })
  .openapi("AutoTopup");

export const AUTO_TOPUP_READ_ONLY = {
  fixed: ["status", "paused_reason", "paused_at"],
  moving: ["ordered_this_month_cents"],
} as const;

const autoTopupAnswer = json(autoTopupSchema, "the settings");
export const getAutoTopup = createRoute({
  method: "get",
  path: "/api/v1/billing/auto-topup",
  tags,
  summary: "Automatic top-ups: the settings, and whether they are paused",
  ...needs("billing:read"),
  responses: { 200: autoTopupAnswer, ...failures(403) },
});

export const putAutoTopup = createRoute({
  method: "put",
  path: "/api/v1/billing/auto-topup",
  tags,
  summary: "Buy tokens automatically when the balance is below a threshold; resumes after a pause",
  ...needs("billing:write"),
  request: jsonBody(
    z.strictObject({
      enabled: z.boolean().optional().openapi({ description: "default: true" }),
      threshold_tokens: z
        .number()
        .int()
        .min(1)
        .max(PURCHASE_CENTS.max * TOKENS_PER_CENT)
        .nullish()
        .openapi({
          description: "the balance below which a purchase is made; left out or null: unchanged, as the amounts",
        }),
      amount_cents: z.number().int().min(PURCHASE_CENTS.min).max(PURCHASE_CENTS.max).nullish(),
      monthly_cap_cents: z
        .number()
        .int()
        .min(PURCHASE_CENTS.min)
        .max(Number.MAX_SAFE_INTEGER)
        .nullish()
        .openapi({ description: "the most that is ordered in a UTC month; at least `amount_cents`" }),
      ...readOnlyFields(AUTO_TOPUP_READ_ONLY),
    }),
  ),
  responses: { 200: autoTopupAnswer, ...failures(400, 403, 503) },
});

export const listInvoices = createRoute({
  method: "get",
  path: "/api/v1/billing/invoices",
  tags,
  summary: "Invoices of overage, newest first",
  ...needs("billing:read"),
  request: { query: listQuerySchema.extend({ status: z.enum(INVOICE_STATUSES).optional() }) },
  responses: {
    200: json(z.object({ invoices: z.array(invoiceSchema), next_cursor: nextCursorSchema }), "a page of invoices"),
    ...failures(400, 403),
  },
});
