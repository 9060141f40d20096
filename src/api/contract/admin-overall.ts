import { json, listQuerySchema, nextCursorSchema, tokensSchema, uuidSchema } from "./common.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { modelSchema } from "./models.ts";
import { requestSchema } from "./requests.ts";
import { operatorRoutes, pageSchema } from "./routes.ts";
import { usageWindowQuery } from "./usage.ts";
import { z } from "./zod.ts";

/** What the operator sees over all users: contract 8.10. */

const routes = operatorRoutes();

export const USAGE_GROUPS = ["model", "user", "plan", "day"] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

const microUsd = z.number().int().openapi({ description: "millionths of a US dollar" });
const figures = {
  requests: z.number().int(),
  tokens: z.number().int().openapi({ description: "raw tokens" }),
  cost_tokens: tokensSchema,
  revenue_micro_usd: microUsd.openapi({
    description:
      "what the used tokens were sold for in US dollars: of each bucket price paid ÷ tokens granted × tokens used; bonus 0",
  }),
  revenue_in_other_currencies: z
    .record(z.string(), z.number().int())
    .openapi({ description: 'the same in other currencies, in millionths of each: `{"eur": 3200000}` is €3.20' }),
  upstream_cost_micro_usd: microUsd
    .nullable()
    .openapi({ description: "what the providers charge the operator; null: unknown for some requests" }),
  margin_micro_usd: microUsd.nullable().openapi({
    description: "revenue less upstream cost; null: the cost is unknown, or there is revenue in another currency",
  }),
  requests_of_unknown_cost: z.number().int(),
};
const usageOfGroupSchema = z
  .object({
    model_name: z.string().optional().openapi({ description: "by model" }),
    user_id: uuidSchema.optional().openapi({ description: "by user" }),
    email: z.string().nullable().optional().openapi({ description: "by user; null: erased" }),
    plan_id: z.string().nullable().optional().openapi({ description: "by the user's present plan; null: none" }),
    date: z.string().optional().openapi({ description: "by day (UTC)" }),
    ...figures,
  })
  .openapi("UsageOfGroup");
/** Sums of requests, with what was earned and spent by them. */
export const figuresSchema = z.object(figures).openapi("UsageFigures");
export type UsageFigures = z.infer<typeof figuresSchema>;
export type UsageOfGroupRecord = z.infer<typeof usageOfGroupSchema>;

export const usageOfAll = routes.get("/api/v1/admin/usage", {
  summary: "Usage of all users with revenue, upstream cost and margin, the largest first; days oldest first",
  query: listQuerySchema.extend({
    ...usageWindowQuery,
    group_by: z.enum(USAGE_GROUPS).default("model"),
    format: formatSchema,
  }),
  answers: {
    200: jsonOrCsv(
      z.object({
        days: z.number().int(),
        group_by: z.enum(USAGE_GROUPS),
        usage: z.array(usageOfGroupSchema),
        total: figuresSchema.openapi({ description: "of all pages" }),
        next_cursor: nextCursorSchema,
      }),
      "a page of groups; as CSV all of them",
    ),
  },
});

export const requestsOfAll = routes.get("/api/v1/admin/requests", {
  summary: "Model calls of all users with this request id, newest first",
  description:
    "All calls of a run share its id, and a caller may repeat an X-Request-Id. `GET …/admin/users/{id}/requests/{request_id}` explains the charges of one user.",
  query: listQuerySchema.extend({ request_id: z.string().min(1).max(255) }),
  answers: {
    200: json(
      pageSchema({ requests: requestSchema.extend({ user_id: uuidSchema }).openapi("OperatorsRequest") }),
      "a page of calls",
    ),
  },
});

export const modelsForOperators = routes.get("/api/v1/admin/models", {
  summary: "Models on offer",
  answers: { 200: json(z.object({ models: z.array(modelSchema) }), "chat and embedding models") },
});
