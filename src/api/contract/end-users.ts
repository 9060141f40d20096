import { instantSchema, json, listQuerySchema, textSchema, tokensSchema } from "./common.ts";
import { BUDGET_INTERVALS } from "./key-terms.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Budgets of end users, the `user` of requests: contract 5.3.2. */

const budgetSchema = z
  .object({
    user: z.string(),
    budget_tokens: tokensSchema,
    budget_interval: z.enum(BUDGET_INTERVALS).nullable(),
    budget_used_tokens: tokensSchema.openapi({ description: "billed tokens of the current interval, without holds" }),
    budget_resets_at: instantSchema.nullable(),
  })
  .openapi("EndUserBudget");
export const BUDGET_READ_ONLY = { fixed: ["user"], moving: ["budget_used_tokens", "budget_resets_at"] } as const;
const params = z.object({ user: textSchema(256).min(1) });
const routes = routesOf("Usage and billing");
const path = "/api/v1/end-user-budgets/{user}";

export const listEndUserBudgets = routes.get("/api/v1/end-user-budgets", {
  summary: "Budgets of end users, in the order of their names",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ end_user_budgets: budgetSchema }), "a page") },
});

export const getEndUserBudget = routes.get(path, {
  summary: "The budget of an end user, and what is used of it",
  scope: "billing:read",
  params,
  answers: { 200: json(budgetSchema, "the budget") },
  fails: [404],
});

export const putEndUserBudget = routes.put(path, {
  summary: "Set the budget of an end user: the `user` of your requests",
  scope: "billing:write",
  params,
  body: z
    .strictObject({
      budget_tokens: z
        .number()
        .int()
        .min(0)
        .max(Number.MAX_SAFE_INTEGER)
        .optional()
        .openapi({ description: "required for a new budget; omitted fields keep their value" }),
      budget_interval: z
        .enum(BUDGET_INTERVALS)
        .nullable()
        .optional()
        .openapi({ description: "the budget starts again with each interval, in UTC; null: it does not" }),
      ...readOnlyFields(BUDGET_READ_ONLY),
    })
    .openapi("SetEndUserBudget"),
  answers: { 200: json(budgetSchema, "the budget") },
  fails: [409],
});

export const deleteEndUserBudget = routes.delete(path, {
  summary: "Remove the budget of an end user",
  scope: "billing:write",
  params,
  answers: { 204: { description: "removed" } },
  fails: [404],
});
