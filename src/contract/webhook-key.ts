import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import { failures, instantSchema, json } from "./common.ts";

/** The key that an agent's `send_webhook` signs with: contract 7. */

const webhookKeySchema = z
  .object({
    key: z.string().openapi({ description: "`whsec_…`, for any Standard Webhooks library" }),
    created_at: instantSchema,
  })
  .openapi("WebhookKey");

export const getWebhookKey = createRoute({
  method: "get",
  path: "/api/v1/agents/{id}/webhook-key",
  tags: ["Agents"],
  summary: "The key that the agent's webhooks are signed with, made when it is first asked for or needed",
  ...needs("agents:write"),
  request: { params: z.object({ id: z.string() }) },
  responses: { 200: json(webhookKeySchema, "the key, to verify webhooks with"), ...failures(403, 404, 409) },
});
