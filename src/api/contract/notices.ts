import { createRoute, z } from "@hono/zod-openapi";
import { agentNameFields } from "./agent-name.ts";
import { needs } from "./caller.ts";
import {
  failures,
  instantSchema,
  json,
  jsonBody,
  listQuerySchema,
  nextCursorSchema,
  textSchema,
  uuidSchema,
} from "./common.ts";

/** Notices and the endpoints they are delivered to: contract 5. */

export const NOTICE_EVENTS = [
  "balance.low",
  "overage.cap_near",
  "key_budget.near",
  "auto_topup.paused",
  "run.failed",
  "run.has_errors",
  "schedule.paused",
  "secret.reflected",
  "secret.disconnected",
  "subscription.renewed",
] as const;
export type NoticeEvent = (typeof NOTICE_EVENTS)[number];

const eventSchema = z.enum(NOTICE_EVENTS);

export const webhookEndpointSchema = z
  .object({
    id: uuidSchema,
    url: z.string(),
    events: z.array(eventSchema),
    status: z
      .enum(["enabled", "disabled"])
      .openapi({ description: "disabled once it has answered 410 Gone, or its e-mail address is no longer yours" }),
    created_at: instantSchema,
    disabled_at: instantSchema.nullable(),
  })
  .openapi("WebhookEndpoint");
export type WebhookEndpoint = z.infer<typeof webhookEndpointSchema>;

const shownOnce = z.string().nullable().openapi({
  description: "`whsec_…`, for any Standard Webhooks library: shown once, never again; null: an e-mail is not signed",
});
const createdWebhookEndpointSchema = webhookEndpointSchema
  .extend({ secret: shownOnce })
  .openapi("CreatedWebhookEndpoint");

export const createWebhookEndpointSchema = z
  .strictObject({
    url: textSchema(2048).min(1).openapi({
      description: "https; http where the operator allows the host; or mailto: and your own address",
      example: "https://example.com/hook",
    }),
    events: z.array(eventSchema).min(1).max(100),
  })
  .openapi("CreateWebhookEndpoint");

export const noticeDeliverySchema = z
  .object({
    endpoint_id: uuidSchema,
    status: z.enum(["pending", "delivered", "failed"]),
    attempts: z.number().int(),
    last_attempt_at: instantSchema.nullable(),
    last_status: z.number().int().nullable().openapi({
      description:
        "HTTP status of the last answer; of an e-mail the mail server's, or 410 once the address is no longer yours",
    }),
    last_error: z.string().nullable().openapi({ description: "why there was no answer, as a code" }),
    next_attempt_at: instantSchema.nullable(),
    delivered_at: instantSchema.nullable(),
  })
  .openapi("NoticeDelivery");
export type NoticeDelivery = z.infer<typeof noticeDeliverySchema>;

export const noticeSchema = z
  .object({
    id: uuidSchema.openapi({ description: "the `webhook-id` of its deliveries" }),
    event: eventSchema,
    data: z.record(z.string(), z.unknown()).openapi({ description: "what the event tells, see the developers' guide" }),
    created_at: instantSchema,
    deliveries: z.array(noticeDeliverySchema),
  })
  .openapi("Notice");
export type Notice = z.infer<typeof noticeSchema>;
/** With the name of the agent that `data.agent_id` names. */
const listedNoticeSchema = noticeSchema.extend(agentNameFields).openapi("ListedNotice");

const tags = ["Notices"];

export const listWebhookEndpoints = createRoute({
  method: "get",
  path: "/api/v1/webhook-endpoints",
  tags,
  summary: "The caller's webhook endpoints, newest first",
  ...needs("billing:read"),
  request: { query: listQuerySchema },
  responses: {
    200: json(
      z.object({ webhook_endpoints: z.array(webhookEndpointSchema), next_cursor: nextCursorSchema }),
      "a page of endpoints",
    ),
    ...failures(400, 403),
  },
});

export const createWebhookEndpoint = createRoute({
  method: "post",
  path: "/api/v1/webhook-endpoints",
  tags,
  summary: "Have events delivered to a URL, signed by Standard Webhooks, or to your own e-mail address",
  ...needs("billing:write"),
  request: jsonBody(createWebhookEndpointSchema),
  responses: {
    201: json(createdWebhookEndpointSchema, "the endpoint; its secret is shown this once"),
    ...failures(400, 403, 409),
  },
});

export const deleteWebhookEndpoint = createRoute({
  method: "delete",
  path: "/api/v1/webhook-endpoints/{id}",
  tags,
  summary: "Delete an endpoint and its waiting deliveries",
  ...needs("billing:write"),
  request: { params: z.object({ id: z.string() }) },
  responses: { 204: { description: "deleted" }, ...failures(403, 404) },
});

export const listNotices = createRoute({
  method: "get",
  path: "/api/v1/notices",
  tags,
  summary: "The caller's notices and their deliveries, newest first",
  ...needs("billing:read"),
  request: { query: listQuerySchema.extend({ event: eventSchema.optional() }) },
  responses: {
    200: json(z.object({ notices: z.array(listedNoticeSchema), next_cursor: nextCursorSchema }), "a page of notices"),
    ...failures(400, 403),
  },
});
