import { userLimitsInput } from "./accounts.ts";
import { agentNameFields } from "./agent-name.ts";
import { OPERATOR_ROLES } from "./caller.ts";
import { instantSchema, json, longListQuerySchema, nextCursorSchema, tokensSchema, uuidSchema } from "./common.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Profile, usage and billing: contract 3 and 5. */

export const grantSourceSchema = z.enum(["subscription", "top_up", "bonus"]);

export const profileSchema = z
  .object({
    id: uuidSchema,
    email: z.string(),
    token_balance: tokensSchema.openapi({ description: "what can be spent now: unexpired remaining less holds" }),
    is_trial: z.boolean(),
    trial_ends_at: instantSchema.nullable(),
    created_at: instantSchema,
    plan: z.string().nullable().openapi({ description: "id of the subscribed plan" }),
    balance: z.object({ posted: tokensSchema, held: tokensSchema, available: tokensSchema, debt: tokensSchema }),
    operator_role: z
      .enum(OPERATOR_ROLES)
      .nullable()
      .openapi({ description: "what the user's sessions may do as an operator; null: no operator" }),
  })
  .openapi("Profile");

export const bucketSchema = z
  .object({
    id: uuidSchema,
    remaining: tokensSchema,
    original_amount: tokensSchema,
    held: tokensSchema,
    source: grantSourceSchema,
    granted_at: instantSchema,
    expires_at: instantSchema,
    note: z.string().nullable(),
    closed_reason: z.enum(["spent", "expired", "clawed_back", "closed"]).nullable(),
  })
  .openapi("Bucket");

export const ENTRY_TYPES = [
  "grant",
  "usage",
  "expiry",
  "refund",
  "clawback",
  "overage",
  "absorbed",
  "adjustment",
] as const;

export const transactionSchema = z
  .object({
    id: uuidSchema,
    seq: z.number().int().openapi({ description: "1, 2, 3 … without a gap for each user" }),
    type: z.enum(ENTRY_TYPES),
    amount: z.number().int().openapi({ description: "billed tokens, negative when taken" }),
    balance_after: tokensSchema,
    bucket_id: uuidSchema.nullable(),
    source: grantSourceSchema.nullable(),
    model: z.string().nullable(),
    agent_id: uuidSchema.nullable(),
    run_id: uuidSchema.nullable(),
    request_id: z.string().nullable(),
    api_key_id: uuidSchema.nullable(),
    description: z.string(),
    created_at: instantSchema,
    hash: z.string().openapi({ description: "SHA-256 over this entry and the hash of the one before" }),
  })
  .openapi("Transaction");
export const listedTransactionSchema = transactionSchema.extend(agentNameFields).openapi("ListedTransaction");

const usageCounts = { tokens: z.number().int(), cost_tokens: tokensSchema, requests: z.number().int() };

export const usageSchema = z
  .object({
    total_tokens_used: z.number().int().openapi({ description: "raw tokens" }),
    total_cost_tokens: tokensSchema,
    daily_usage: z.array(z.object({ date: z.string().openapi({ format: "date" }), ...usageCounts })),
    model_breakdown: z.array(z.object({ model_name: z.string(), ...usageCounts })),
    agent_breakdown: z.array(z.object({ agent_id: uuidSchema.nullable(), ...agentNameFields, ...usageCounts })),
    api_key_breakdown: z.array(
      z.object({
        api_key_id: uuidSchema.nullable(),
        api_key_name: z.string().nullable().openapi({ description: "null: no key; a revoked key keeps its name" }),
        ...usageCounts,
      }),
    ),
  })
  .openapi("UsageSummary");

export const planSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    price_cents: z.number().int(),
    currency: z.string(),
    interval: z.string(),
    included_tokens: tokensSchema,
    rollover_months: z.number().int(),
    limits: userLimitsInput.optional(),
  })
  .openapi("Plan");

const routes = routesOf("Usage and billing");

export const getProfile = routes.get("/api/v1/users/me", {
  summary: "Who is calling, and the balance",
  scope: "any",
  answers: { 200: json(profileSchema, "the profile") },
});

export const listBuckets = routes.get("/api/v1/users/me/buckets", {
  summary: "Token buckets, oldest first: the order in which they are spent",
  scope: "billing:read",
  query: longListQuerySchema.extend({ include: z.literal("closed").optional() }),
  answers: {
    200: json(
      z.object({ buckets: z.array(bucketSchema), total_remaining: tokensSchema, next_cursor: nextCursorSchema }),
      "a page of buckets",
    ),
  },
});

export const listPlans = routes.get("/api/v1/billing/plans", {
  summary: "Plans on offer",
  scope: "billing:read",
  answers: {
    200: json(
      z.object({
        plans: z.array(planSchema),
        payments: z
          .enum(["stripe", "sandbox", "none"])
          .openapi({ description: "how they are paid: sandbox moves no money, with none nothing can be bought" }),
      }),
      "the plans",
    ),
  },
});

export const stripeWebhook = routes.post("/api/v1/billing/stripe/webhook", {
  summary: "Stripe's deliveries: signed, and harmless when replayed or out of order",
  answers: { 200: json(z.object({ received: z.literal(true) }), "taken; Stripe need not send it again") },
});
