import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import { instantSchema, json, listQuerySchema, noFields, tokensSchema, uuidSchema } from "./common.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Subscribing, top-ups and overage: contract 5. */

const centsSchema = z.number().int().openapi({ description: "cents" });
const checkoutUrl = z
  .string()
  .nullable()
  .openapi({ description: "where to pay; null when there is nothing to do there" });
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
    checkout_url: checkoutUrl,
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
    currency: z.string().openapi({ description: "of the plan; `usd` without one" }),
    period_start: instantSchema.nullable(),
    period_end: instantSchema.nullable(),
  })
  .openapi("Overage");

export const OVERAGE_READ_ONLY = {
  fixed: ["enabled", "eligible", "currency", "period_start", "period_end"],
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
    checkout_url: checkoutUrl,
    created_at: instantSchema,
    sandbox: sandboxSchema,
  })
  .openapi("Invoice");

export const paymentSchema = z
  .object({
    id: uuidSchema,
    purpose: z
      .enum(["top_up", "automatic_top_up", "plan", "plan_change", "overage"])
      .openapi({ description: "plan: a period of the subscription; plan_change: the difference of an upgrade" }),
    status: z
      .enum(["pending", "succeeded", "failed", "refunded", "void"])
      .openapi({ description: "failed: nothing was paid, and overage is still owed; void: not owed any more" }),
    amount_cents: centsSchema,
    paid_cents: centsSchema.openapi({ description: "0 for what the operator gave" }),
    refunded_cents: centsSchema,
    currency: z.string(),
    tokens: tokensSchema,
    period_start: instantSchema.nullable().openapi({ description: "of a plan" }),
    collected_by: z.enum(["stripe", "sandbox", "operator"]),
    checkout_url: checkoutUrl,
    created_at: instantSchema,
    sandbox: sandboxSchema,
  })
  .openapi("Payment");

export const paymentDetailSchema = paymentSchema
  .extend({
    plan_name: z.string().nullable().openapi({ description: "the paid plan, as it was called then" }),
    receipt_url: z.string().nullable().openapi({ description: "the payment provider's own receipt, if it shows one" }),
  })
  .openapi("PaymentDetail");

export const previewSchema = z
  .object({
    change: z
      .enum(["subscribe", "upgrade", "downgrade", "keep"])
      .nullable()
      .openapi({ description: "what choosing the plan does; null for other changes" }),
    due_now_cents: centsSchema,
    tokens: tokensSchema.openapi({ description: "granted once `due_now_cents` are paid" }),
    currency: z.string(),
    next: z.object({ at: instantSchema.nullable(), amount_cents: centsSchema }).nullable().openapi({
      description: "the payment that follows; `at` is null if it is a month after a first payment that is yet to come",
    }),
    most_cents: centsSchema
      .nullable()
      .openapi({ description: "the most that this period's overage, or this month's automatic top-ups, can cost" }),
  })
  .openapi("BillingPreview");

const urlSchema = z
  .url({ protocol: /^https?$/, error: "an http or https URL such as https://example.com/thanks" })
  .max(2000)
  .openapi({ description: "where the checkout page leads back to" });
const returnUrls = { success_url: urlSchema.optional(), cancel_url: urlSchema.optional() };
const routes = routesOf("Usage and billing");

const subscriptionAnswer = json(subscriptionSchema, "the subscription");
export const getSubscription = routes.get("/api/v1/billing/subscription", {
  summary: "The caller's subscription",
  scope: "billing:read",
  answers: { 200: json(subscriptionSchema, "status `none` without one") },
});

export const subscribe = routes.post("/api/v1/billing/subscription", {
  summary: "Subscribe, or change plans: up at once, down at the period's end; the present plan takes a change back",
  scope: "billing:write",
  body: z.strictObject({ plan_id: z.string(), ...returnUrls }),
  answers: {
    200: json(subscriptionSchema, "the subscription, changed"),
    201: json(subscriptionSchema, "the new subscription"),
  },
  fails: [402, 409, 503],
});

export const cancelSubscription = routes.delete("/api/v1/billing/subscription", {
  summary: "Cancel at the period's end",
  scope: "billing:write",
  answers: { 200: subscriptionAnswer },
  fails: [404],
});

const purchaseFields = {
  amount_cents: z.number().int().optional().openapi({ description: "at least 100; or give `tokens`" }),
  tokens: z.number().int().optional().openapi({ description: "billed tokens; the price is rounded up to a cent" }),
};

export const purchase = routes.post("/api/v1/billing/purchase", {
  summary: "Buy a top-up: 6,250 tokens a cent, good for 12 months",
  scope: "billing:write",
  body: z.strictObject({ ...purchaseFields, ...returnUrls }),
  answers: { 201: json(purchaseSchema, "the purchase") },
  fails: [402, 409, 503],
});

export const listPurchases = routes.get("/api/v1/billing/purchases", {
  summary: "Purchases, newest first",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ purchases: purchaseSchema }), "a page of purchases") },
});

export const getPurchase = routes.get("/api/v1/billing/purchases/{id}", {
  summary: "One purchase",
  scope: "billing:read",
  answers: { 200: json(purchaseSchema, "the purchase") },
});

const overageAnswer = json(overageSchema, "the overage status");
export const getOverage = routes.get("/api/v1/billing/overage", {
  summary: "Overage of this period",
  scope: "billing:read",
  answers: { 200: overageAnswer },
});

const capSchema = z
  .number()
  .int()
  .min(0)
  .max(PURCHASE_CENTS.max * TOKENS_PER_CENT)
  .nullable()
  .openapi({
    description:
      "null: the plan's included tokens. Where the operator collects by hand, at most ten times these, or what 100 dollars buy where that is more",
  });

export const putOverage = routes.put("/api/v1/billing/overage", {
  summary: "Set the most overage a period may use",
  scope: "billing:write",
  body: z.strictObject({ cap_tokens: capSchema, ...readOnlyFields(OVERAGE_READ_ONLY) }),
  answers: { 200: overageAnswer },
  fails: [409],
});

export const enableOverage = routes.post("/api/v1/billing/overage/enable", {
  summary: "Go on past the plan's tokens, billed as used; for subscribers",
  scope: "billing:write",
  optional_body: noFields,
  answers: { 200: overageAnswer },
  fails: [409],
});

export const disableOverage = routes.post("/api/v1/billing/overage/disable", {
  summary: "Disable overage; used overage is invoiced at the end of the period",
  scope: "billing:write",
  optional_body: noFields,
  answers: { 200: overageAnswer },
});

export const pauseReasonSchema = z.enum(["payment_declined", "payment_mismatch", "payment_returned"]);
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
export const getAutoTopup = routes.get("/api/v1/billing/auto-topup", {
  summary: "Automatic top-ups: the settings, and whether they are paused",
  scope: "billing:read",
  answers: { 200: autoTopupAnswer },
});

const autoTopupFields = {
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
};

export const putAutoTopup = routes.put("/api/v1/billing/auto-topup", {
  summary: "Buy tokens automatically when the balance is below a threshold; resumes after a pause",
  scope: "billing:write",
  body: z.strictObject({ ...autoTopupFields, ...readOnlyFields(AUTO_TOPUP_READ_ONLY) }),
  answers: { 200: autoTopupAnswer },
  fails: [503],
});

export const listInvoices = routes.get("/api/v1/billing/invoices", {
  summary: "Invoices of overage, newest first",
  scope: "billing:read",
  query: listQuerySchema.extend({ status: z.enum(INVOICE_STATUSES).optional() }),
  answers: { 200: json(pageSchema({ invoices: invoiceSchema }), "a page of invoices") },
});

export const listPayments = routes.get("/api/v1/billing/payments", {
  summary: "Payments of every purpose, newest first",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ payments: paymentSchema }), "a page of payments") },
});

export const getPayment = routes.get("/api/v1/billing/payments/{id}", {
  summary: "One payment, with the provider's receipt",
  scope: "billing:read",
  answers: { 200: json(paymentDetailSchema, "the payment") },
});

const previewAnswer = json(previewSchema, "what the change costs; nothing is changed");
export const previewPlan = routes.post("/api/v1/billing/subscription/preview", {
  summary: "What choosing a plan costs, now and later",
  scope: "billing:read",
  body: z.strictObject({ plan_id: z.string() }),
  answers: { 200: previewAnswer },
  fails: [409, 503],
});
export const previewPurchase = routes.post("/api/v1/billing/purchase/preview", {
  summary: "What a top-up costs",
  scope: "billing:read",
  body: z.strictObject(purchaseFields),
  answers: { 200: previewAnswer },
  fails: [409, 503],
});
export const previewOverage = routes.post("/api/v1/billing/overage/preview", {
  summary: "What the overage of this period can cost after a change",
  scope: "billing:read",
  body: z.strictObject({ enabled: z.boolean().optional(), cap_tokens: capSchema.optional() }),
  answers: { 200: previewAnswer },
  fails: [409],
});
export const previewAutoTopup = routes.post("/api/v1/billing/auto-topup/preview", {
  summary: "What settings of automatic top-ups order at once, and at most",
  scope: "billing:read",
  body: z.strictObject(autoTopupFields),
  answers: { 200: previewAnswer },
  fails: [503],
});
