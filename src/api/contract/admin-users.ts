import { createApiKeySchema, createdApiKeySchema, listApiKeys } from "./accounts.ts";
import { agentNameFields } from "./agent-name.ts";
import { bucketSchema, listBuckets, profileSchema } from "./billing.ts";
import {
  instantSchema,
  json,
  longListQuerySchema,
  textSchema,
  tokensSchema,
  uuidSchema,
  windowQuery,
} from "./common.ts";
import { ofUser } from "./endpoint.ts";
import { explainCharge, getUsage, listTransactions } from "./ledger-export.ts";
import { reasonQuery, reasonSchema } from "./operators.ts";
import { subscriptionSchema } from "./payments.ts";
import { listRequests } from "./requests.ts";
import { operatorRoutes, pageSchema } from "./routes.ts";
import { hasErrorsInput, runSchema, runStatusSchema, stepSchema, triggerSchema } from "./runs.ts";
import { z } from "./zod.ts";

/** What the operator sees and corrects of one user: contract 8.7. */

const routes = operatorRoutes();
/** A correction of a balance says why. */
const neededReason = textSchema(500).min(1).openapi({ description: "for the ledger and the log of acts" });

export const usageOfUser = ofUser(getUsage, "usage", { also_erased: true });
export const transactionsOfUser = ofUser(listTransactions, "transactions", { also_erased: true });
export const requestsOfUser = ofUser(listRequests, "requests", { also_erased: true });
export const chargeOfUser = ofUser(explainCharge, "requests/{request_id}", { also_erased: true });
export const bucketsOfUser = ofUser(listBuckets, "buckets", { also_erased: true });
export const apiKeysOfUser = ofUser(listApiKeys, "api-keys");

const userEmail = z.string().nullable().openapi({ description: "the user's address; null once erased" });
const operatorsRunSchema = runSchema
  .extend({ user_id: uuidSchema, user_email: userEmail, ...agentNameFields })
  .openapi("OperatorsRun");
const runsAnswer = json(pageSchema({ runs: operatorsRunSchema }), "a page of runs, those of deleted agents included");
export const runsQuery = longListQuerySchema.extend({
  user_id: z.uuid().optional(),
  agent_id: z.uuid().optional(),
  status: runStatusSchema.optional(),
  trigger: triggerSchema.optional(),
  has_errors: hasErrorsInput.optional(),
  error_code: textSchema(100).min(1).optional().openapi({ description: "the code of the run's error" }),
  ...windowQuery("queued"),
});

export const runsOfUser = routes.get("/api/v1/admin/users/{id}/runs", {
  summary: "Runs of all agents of a user, newest first",
  query: runsQuery.omit({ user_id: true }),
  answers: { 200: runsAnswer },
});

export const runsOfAll = routes.get("/api/v1/admin/runs", {
  summary: "Runs of all users, newest first; `has_errors=true` finds failing agents",
  query: runsQuery,
  answers: { 200: runsAnswer },
});

const operatorsRunStepSchema = stepSchema
  .pick({ index: true, type: true, name: true, status: true, usage: true, started_at: true, finished_at: true })
  .extend({ error: z.union([z.object({ code: z.string(), message: z.string() }), z.null()]) })
  .openapi("OperatorsRunStep");
export type OperatorsRunStep = z.infer<typeof operatorsRunStepSchema>;

export const runForOperators = routes.get("/api/v1/admin/runs/{run_id}", {
  summary: "One run of any user: its figures and errors, without what its agent read and wrote",
  answers: {
    200: json(
      operatorsRunSchema.extend({ steps: z.array(operatorsRunStepSchema) }).openapi("OperatorsRunDetail"),
      "the run with its steps",
    ),
  },
});

const runFailuresSchema = z
  .object({
    user_id: uuidSchema,
    user_email: userEmail,
    agent_id: uuidSchema,
    ...agentNameFields,
    error_code: z.string(),
    runs: z.number().int(),
    last_run_id: uuidSchema,
    last_at: instantSchema.openapi({ description: "when the last one was queued" }),
    last_message: z.string(),
  })
  .openapi("RunFailures");
export type RunFailures = z.infer<typeof runFailuresSchema>;

export const runFailures = routes.get("/api/v1/admin/run-failures", {
  summary: "Whose runs fail, and why: the failed runs by user, agent and error, the most frequent first",
  query: z.object({ user_id: z.uuid().optional(), ...windowQuery("queued") }),
  answers: {
    200: json(
      z.object({
        from: instantSchema.openapi({ description: "the first instant; without `from` seven days ago" }),
        failures: z.array(runFailuresSchema),
      }),
      "at most 100 groups",
    ),
  },
});

export const createApiKeyOfUser = routes.post("/api/v1/admin/users/{id}/api-keys", {
  summary: "Create an API key of a user",
  body: createApiKeySchema.extend({ reason: reasonSchema }),
  answers: { 201: json(createdApiKeySchema, "the key, shown this once") },
  fails: [409],
});

export const deleteApiKeyOfUser = routes.delete("/api/v1/admin/users/{id}/api-keys/{key_id}", {
  summary: "Revoke an API key of a user",
  query: reasonQuery,
  answers: { 204: { description: "revoked" } },
});

export const cancelSubscriptionOfUser = routes.delete("/api/v1/admin/users/{id}/subscription", {
  summary: "Cancel a user's subscription at the end of its period",
  query: reasonQuery,
  answers: { 200: json(subscriptionSchema, "the subscription") },
  fails: [409],
});

export const adjustBalance = routes.post("/api/v1/admin/users/{id}/adjustments", {
  summary: "Correct a user's balance by an entry of the ledger",
  description:
    "A positive amount becomes a bonus bucket that lasts 12 months, and repays debt first. A negative amount takes tokens that no call holds: bonuses before paid tokens, of each the oldest first; 400 when there are fewer.",
  body: z.strictObject({
    amount_tokens: z
      .number()
      .int()
      .min(-1e15)
      .max(1e15)
      .refine((amount) => amount !== 0, "an amount other than 0"),
    reason: neededReason,
  }),
  answers: {
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
  },
});

export const closeBucket = routes.post("/api/v1/admin/users/{id}/buckets/{bucket_id}/close", {
  summary: "Close a bucket: it loses its tokens, except the tokens that calls hold",
  body: z.strictObject({ reason: neededReason }),
  answers: {
    200: json(
      bucketSchema.extend({ taken_tokens: tokensSchema }),
      "the bucket; `taken_tokens` 0: it was closed before",
    ),
  },
});
