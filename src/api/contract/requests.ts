import { agentNameFields } from "./agent-name.ts";
import { instantSchema, listQuerySchema, textSchema, tokensSchema, uuidSchema, windowQuery } from "./common.ts";
import { archivedFields, formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { MODEL_APIS } from "./model-apis.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** The request log: contract 5.15. */

const REQUEST_STATUSES = ["succeeded", "failed", "rejected"] as const;

export const requestSchema = z
  .object({
    id: uuidSchema.openapi({ description: "unique; a caller may repeat its `request_id`" }),
    request_id: z.string(),
    api: z.enum(MODEL_APIS).nullable().openapi({ description: "null: a run called the model" }),
    status: z.enum(REQUEST_STATUSES).openapi({
      description: "rejected: a 4xx, which cost nothing; failed: a 5xx, a stream that broke off, or a caller who left",
    }),
    http_status: z.number().int().openapi({ description: "499: the caller left before the end" }),
    error: z
      .object({
        code: z.string(),
        message: z.string().nullable().openapi({ description: "null: it would repeat the request's text" }),
        param: z.string().nullable(),
      })
      .nullable(),
    model: z.string().nullable().openapi({ description: "of a failed request as it named it; null: it named none" }),
    agent_id: uuidSchema.nullable(),
    ...agentNameFields,
    run_id: uuidSchema.nullable(),
    api_key_id: uuidSchema.nullable(),
    api_key_name: z.string().nullable().openapi({ description: "a revoked key keeps its name" }),
    user: z.string().nullable().openapi({ description: "the end user" }),
    input_tokens: z.number().int(),
    output_tokens: z.number().int(),
    total_tokens: z.number().int(),
    cost_tokens: tokensSchema,
    duration_ms: z.number().int().nullable().openapi({ description: "null: it is not known" }),
    first_token_ms: z.number().int().nullable().openapi({ description: "until a stream's text began" }),
    created_at: instantSchema,
  })
  .openapi("ModelRequest");
export type ModelRequest = z.infer<typeof requestSchema>;

export const listRequests = routesOf("Usage and billing").get("/api/v1/users/me/requests", {
  summary: "The request log: calls of models with their usage and cost, rejected and failed ones too, newest first",
  scope: "billing:read",
  query: listQuerySchema.extend({
    request_id: textSchema(255).min(1).optional(),
    api_key_id: z.uuid().optional(),
    user: textSchema(256).min(1).optional().openapi({ description: "the end user" }),
    model: textSchema(255).min(1).optional(),
    agent_id: z.uuid().optional(),
    status: z
      .string()
      .regex(
        /^(succeeded|failed|rejected|200|[45]\d\d)$/,
        "succeeded, failed, rejected, or an HTTP status: 200, or 400 to 599",
      )
      .optional()
      .openapi({ description: "succeeded, failed, rejected, or an HTTP status" }),
    min_ms: z.coerce.number().int().min(0).max(2_147_483_647).optional().openapi({ description: "took this long" }),
    ...windowQuery("ended"),
    format: formatSchema,
  }),
  answers: {
    200: jsonOrCsv(
      pageSchema({ requests: requestSchema }).extend(archivedFields),
      "a page of requests; as CSV all that match",
    ),
  },
});
