import { createRoute, z } from "@hono/zod-openapi";
import { createApiKeySchema, createdApiKeySchema, listApiKeys } from "./accounts.ts";
import { agentNameFields } from "./agent-name.ts";
import { bucketSchema, listBuckets, profileSchema } from "./billing.ts";
import {
  boundInput,
  failures,
  instantSchema,
  json,
  jsonBody,
  longListQuerySchema,
  nextCursorSchema,
  textSchema,
  tokensSchema,
  uuidSchema,
} from "./common.ts";
import { explainCharge, getUsage, listRequests, listTransactions } from "./ledger-export.ts";
import { reasonQuery, reasonSchema } from "./operators.ts";
import { subscriptionSchema } from "./payments.ts";
import { ofUser } from "./router.ts";
import { hasErrorsInput, runSchema, runStatusSchema, triggerSchema } from "./runs.ts";

/** What the operator sees and corrects of one user: contract 8.7. */

const tags = ["Operator"];
const security = [{ operator_key: [] as string[] }];
const idParams = z.object({ id: z.string() });
/** A correction of a balance says why. */
const neededReason = textSchema(500).min(1).openapi({ description: "for the ledger and the log of acts" });

export const usageOfUser = ofUser(getUsage, "usage", { also_erased: true });
export const transactionsOfUser = ofUser(listTransactions, "transactions", { also_erased: true });
export const requestsOfUser = ofUser(listRequests, "requests", { also_erased: true });
export const chargeOfUser = ofUser(explainCharge, "requests/{request_id}", { also_erased: true });
export const bucketsOfUser = ofUser(listBuckets, "buckets", { also_erased: true });
export const apiKeysOfUser = ofUser(listApiKeys, "api-keys");

const operatorsRunSchema = runSchema.extend({ user_id: uuidSchema, ...agentNameFields }).openapi("OperatorsRun");
const runsAnswer = json(
  z.object({ runs: z.array(operatorsRunSchema), next_cursor: nextCursorSchema }),
  "a page of runs, those of deleted agents included",
);
export const runsQuery = longListQuerySchema.extend({
  user_id: z.uuid().optional(),
  agent_id: z.uuid().optional(),
  status: runStatusSchema.optional(),
  trigger: triggerSchema.optional(),
  has_errors: hasErrorsInput.optional(),
  from: boundInput.optional().openapi({ description: "queued then or later" }),
  to: boundInput.optional().openapi({ description: "queued before" }),
});

export const runsOfUser = createRoute({
  method: "get",
  path: "/api/v1/admin/users/{id}/runs",
  tags,
  summary: "Runs of all agents of a user, newest first",
  security,
  request: { params: idParams, query: runsQuery.omit({ user_id: true }) },
  responses: { 200: runsAnswer, ...failures(400, 404) },
});

export const runsOfAll = createRoute({
  method: "get",
  path: "/api/v1/admin/runs",
  tags,
  summary: "Runs of all users, newest first; `has_errors=true` finds failing agents",
  security,
  request: { query: runsQuery },
  responses: { 200: runsAnswer, ...failures(400, 404) },
});

export const createApiKeyOfUser = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/api-keys",
  tags,
  summary: "Create an API key of a user",
  security,
  request: { params: idParams, ...jsonBody(createApiKeySchema.extend({ reason: reasonSchema })) },
  responses: { 201: json(createdApiKeySchema, "the key, shown this once"), ...failures(400, 404, 409) },
});

export const deleteApiKeyOfUser = createRoute({
  method: "delete",
  path: "/api/v1/admin/users/{id}/api-keys/{key_id}",
  tags,
  summary: "Revoke an API key of a user",
  security,
  request: { params: idParams.extend({ key_id: z.string() }), query: reasonQuery },
  responses: { 204: { description: "revoked" }, ...failures(400, 404) },
});

export const cancelSubscriptionOfUser = createRoute({
  method: "delete",
  path: "/api/v1/admin/users/{id}/subscription",
  tags,
  summary: "Cancel a user's subscription at the end of its period",
  security,
  request: { params: idParams, query: reasonQuery },
  responses: { 200: json(subscriptionSchema, "the subscription"), ...failures(400, 404, 409) },
});

export const adjustBalance = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/adjustments",
  tags,
  summary: "Correct a user's balance by an entry of the ledger",
  description:
    "A positive amount becomes a bonus bucket that lasts 12 months, and repays debt first. A negative amount takes tokens that no call holds: bonuses before paid tokens, of each the oldest first; 400 when there are fewer.",
  security,
  request: {
    params: idParams,
    ...jsonBody(
      z.strictObject({
        amount_tokens: z
          .number()
          .int()
          .min(-1e15)
          .max(1e15)
          .refine((amount) => amount !== 0, "an amount other than 0"),
        reason: neededReason,
      }),
    ),
  },
  responses: {
    201: json(
      z
        .object({
          amount_tokens: z.number().int(),
          reason: z.string(),
          bucket_id: uuidSchema.nullable().openapi({ description: "the bucket of a positive amount" }),
          balance: profileSchema.shape.balance,
          created_at: instantSchema,
        })
        .openapi("Adjustment"),
      "the adjustment and the balance after it",
    ),
    ...failures(400, 404),
  },
});

export const closeBucket = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/buckets/{bucket_id}/close",
  tags,
  summary: "Close a bucket: it loses its tokens, except the tokens that calls hold",
  security,
  request: {
    params: idParams.extend({ bucket_id: z.string() }),
    ...jsonBody(z.strictObject({ reason: neededReason })),
  },
  responses: {
    200: json(
      bucketSchema.extend({ taken_tokens: tokensSchema }),
      "the bucket; `taken_tokens` 0: it was closed before",
    ),
    ...failures(400, 404),
  },
});
