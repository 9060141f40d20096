import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import {
  failures,
  instantSchema,
  json,
  jsonBody,
  listQuerySchema,
  nextCursorSchema,
  textSchema,
  tokensSchema,
} from "./common.ts";
import { BUDGET_INTERVALS } from "./key-terms.ts";
import { readOnlyFields } from "./read-only.ts";

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
const tags = ["Usage and billing"];
const path = "/api/v1/end-user-budgets/{user}";

export const listEndUserBudgets = createRoute({
  method: "get",
  path: "/api/v1/end-user-budgets",
  tags,
  summary: "Budgets of end users, in the order of their names",
  ...needs("billing:read"),
  request: { query: listQuerySchema },
  responses: {
    200: json(z.object({ end_user_budgets: z.array(budgetSchema), next_cursor: nextCursorSchema }), "a page"),
    ...failures(400, 403),
  },
});

export const getEndUserBudget = createRoute({
  method: "get",
  path,
  tags,
  summary: "The budget of an end user, and what is used of it",
  ...needs("billing:read"),
  request: { params },
  responses: { 200: json(budgetSchema, "the budget"), ...failures(400, 403, 404) },
});

export const putEndUserBudget = createRoute({
  method: "put",
  path,
  tags,
  summary: "Set the budget of an end user: the `user` of your requests",
  ...needs("billing:write"),
  request: {
    params,
    ...jsonBody(
      z
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
    ),
  },
  responses: { 200: json(budgetSchema, "the budget"), ...failures(400, 403, 409) },
});

export const deleteEndUserBudget = createRoute({
  method: "delete",
  path,
  tags,
  summary: "Remove the budget of an end user",
  ...needs("billing:write"),
  request: { params },
  responses: { 204: { description: "removed" }, ...failures(400, 403, 404) },
});
