import { SCOPES } from "./caller.ts";
import { instantInput, instantSchema, json, listQuerySchema, textSchema, tokensSchema, uuidSchema } from "./common.ts";
import { BUDGET_INTERVALS } from "./key-terms.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** API keys: contract 3. */

/** Most entries of `allowed_models`. */
const MAX_ALLOWED_MODELS = 100;
const limitInput = z.number().int().min(1).max(1_000_000_000).nullable().optional();

/** An empty list allows no model. */
const allowedModelsInput = z
  .array(textSchema(128).min(1))
  .max(MAX_ALLOWED_MODELS)
  .nullable()
  .optional()
  .openapi({ description: "ids of models; null: all" });

const limitInputs = { requests_per_minute: limitInput, tokens_per_minute: limitInput, concurrent_runs: limitInput };
const keyLimitsInput = z.strictObject(limitInputs).openapi("KeyLimits");
/** The limits of a user or a plan, as the operator gives them. */
export const userLimitsInput = z
  .strictObject({ ...limitInputs, allowed_models: allowedModelsInput })
  .openapi("UserLimits");

const keyLimitsSchema = z
  .object({
    requests_per_minute: z.number().int().nullable(),
    tokens_per_minute: z.number().int().nullable(),
    concurrent_runs: z.number().int().nullable(),
  })
  .openapi("ApiKeyLimits");

export const apiKeySchema = z
  .object({
    id: uuidSchema,
    name: z.string(),
    prefix: z.string(),
    last_four: z.string(),
    scopes: z.array(z.enum(SCOPES)),
    created_at: instantSchema,
    expires_at: instantSchema.nullable(),
    last_used_at: instantSchema.nullable(),
    revoked_at: instantSchema.nullable(),
    budget_tokens: tokensSchema.nullable(),
    budget_interval: z.enum(BUDGET_INTERVALS).nullable(),
    budget_used_tokens: tokensSchema.openapi({ description: "billed tokens of the current interval, without holds" }),
    budget_resets_at: instantSchema.nullable(),
    allowed_models: z.array(z.string()).nullable(),
    limits: keyLimitsSchema,
    spent_tokens: tokensSchema,
  })
  .openapi("ApiKey");
export type ApiKeyRecord = z.infer<typeof apiKeySchema>;

const shownOnce = z.string().openapi({ description: "the key itself: shown once, never again" });
export const createdApiKeySchema = apiKeySchema.extend({ key: shownOnce }).openapi("CreatedApiKey");

export const createApiKeySchema = z
  .strictObject({
    name: textSchema(100).min(1),
    scopes: z
      .array(z.enum(SCOPES))
      .min(1)
      .max(100)
      .optional()
      .openapi({ description: "default: all but agents:approve" }),
    expires_at: instantInput.nullable().optional(),
    budget_tokens: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).nullable().optional(),
    budget_interval: z
      .enum(BUDGET_INTERVALS)
      .nullable()
      .optional()
      .openapi({ description: "the budget starts again with each interval, in UTC; weeks start on Monday" }),
    allowed_models: allowedModelsInput,
    limits: z.union([keyLimitsInput, z.null()]).optional(),
  })
  .openapi("CreateApiKey");

export const KEY_READ_ONLY = {
  fixed: ["id", "prefix", "last_four", "scopes", "created_at", "revoked_at"],
  moving: ["last_used_at", "budget_used_tokens", "budget_resets_at", "spent_tokens"],
} as const;
const updateApiKeySchema = createApiKeySchema
  .omit({ scopes: true })
  .partial()
  .extend(readOnlyFields(KEY_READ_ONLY))
  .openapi("UpdateApiKey");

const routes = routesOf("API keys");

export const listApiKeys = routes.get("/api/v1/api-keys", {
  summary: "The caller's API keys, newest first, revoked ones included",
  scope: "keys:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ api_keys: apiKeySchema }), "a page of keys") },
});

export const createApiKey = routes.post("/api/v1/api-keys", {
  summary: "Create a key, no broader than the one that asks",
  scope: "keys:write",
  body: createApiKeySchema,
  answers: { 201: json(createdApiKeySchema, "the key, shown this once") },
  fails: [409],
});

export const deleteApiKey = routes.delete("/api/v1/api-keys/{id}", {
  summary: "Revoke a key: refused on every node within a second",
  scope: "keys:write",
  answers: { 204: { description: "revoked" } },
});

export const updateApiKey = routes.patch("/api/v1/api-keys/{id}", {
  summary: "Change the given fields. A key cannot raise its own budget or give another key more than a new key",
  description: "A larger budget or a later expiry resumes the schedules that were paused for it.",
  scope: "keys:write",
  body: updateApiKeySchema,
  answers: { 200: json(apiKeySchema, "the key as it is now") },
  fails: [409],
});

export const rotateApiKey = routes.post("/api/v1/api-keys/{id}/rotate", {
  summary: "Replace the key's secret; the old one stays good for `grace_seconds`",
  scope: "keys:write",
  body: z.strictObject({ grace_seconds: z.number().int().min(0).max(604_800).default(0) }),
  answers: { 200: json(createdApiKeySchema, "the same key record with its new secret") },
  fails: [409],
});

export const revokeLeakedApiKey = routes.post("/api/v1/api-keys/revoke-leaked", {
  summary: "Revoke a leaked key; the answer is the same for a text that is not a key",
  body: z.strictObject({ key: z.string().min(1).max(500) }),
  answers: { 202: json(z.object({ status: z.literal("accepted") }), "if it was a key, it is revoked") },
});
