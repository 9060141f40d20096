import { agentNameFields } from "./agent-name.ts";
import { instantSchema, json, listQuerySchema, textSchema, uuidSchema } from "./common.ts";
import { triesSchema } from "./deliveries.ts";
import { readOnlyFields } from "./read-only.ts";
import { formerSecretUntil, overlapSchema, secretIsRotated } from "./rotation.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Notices and the endpoints they are delivered to: contract 5. */

export const NOTICE_EVENTS = [
  "balance.low",
  "overage.cap_near",
  "key_budget.near",
  "auto_topup.paused",
  "run.failed",
  "run.has_errors",
  "run.succeeded",
  "run.requires_action",
  "delivery.failed",
  "schedule.paused",
  "secret.reflected",
  "secret.disconnected",
  "subscription.renewed",
] as const;
export type NoticeEvent = (typeof NOTICE_EVENTS)[number];

const eventSchema = z.enum(NOTICE_EVENTS);

export const noticeDeliverySchema = triesSchema
  .extend({ endpoint_id: uuidSchema, status: z.enum(["pending", "delivered", "failed"]) })
  .openapi("NoticeDelivery");
export type NoticeDelivery = z.infer<typeof noticeDeliverySchema>;

/** A delivery as its endpoint lists it. */
const endpointDeliverySchema = noticeDeliverySchema
  .omit({ endpoint_id: true })
  .extend({
    id: uuidSchema.openapi({ description: "the `webhook-id` of every try: the notice's id" }),
    event: eventSchema,
    created_at: instantSchema,
  })
  .openapi("EndpointDelivery");
export type EndpointDelivery = z.infer<typeof endpointDeliverySchema>;

export const webhookEndpointSchema = z
  .object({
    id: uuidSchema,
    url: z.string(),
    events: z.array(eventSchema),
    status: z.enum(["enabled", "disabled"]).openapi({
      description: "disabled by you, once it has answered 410 Gone, or once its e-mail address is no longer yours",
    }),
    former_secret_until: formerSecretUntil("signs"),
    created_at: instantSchema,
    disabled_at: instantSchema.nullable(),
    last_delivery: endpointDeliverySchema.nullable().openapi({ description: "the one that was tried last" }),
    failed_deliveries: z.number().int().openapi({ description: "given up, of the notices that are kept" }),
  })
  .openapi("WebhookEndpoint");
export type WebhookEndpoint = z.infer<typeof webhookEndpointSchema>;

const shownOnce = z.string().nullable().openapi({
  description: "`whsec_…`, for any Standard Webhooks library: shown once, never again; null: an e-mail is not signed",
});
const createdWebhookEndpointSchema = webhookEndpointSchema
  .extend({ secret: shownOnce })
  .openapi("CreatedWebhookEndpoint");
const rotatedWebhookEndpointSchema = webhookEndpointSchema
  .extend({ secret: z.string().openapi({ description: "shown this once, never again" }) })
  .openapi("RotatedWebhookEndpoint");

export const createWebhookEndpointSchema = z
  .strictObject({
    url: textSchema(2048).min(1).openapi({
      description: "https; http where the operator allows the host; or mailto: and your own address",
      example: "https://example.com/hook",
    }),
    events: z.array(eventSchema).min(1).max(100),
  })
  .openapi("CreateWebhookEndpoint");

export const ENDPOINT_READ_ONLY = {
  fixed: ["id", "created_at"],
  moving: ["former_secret_until", "disabled_at", "last_delivery", "failed_deliveries"],
} as const;
/** Each field alone. */
const updateWebhookEndpointSchema = z
  .strictObject(
    {
      ...createWebhookEndpointSchema.partial().shape,
      ...readOnlyFields(ENDPOINT_READ_ONLY),
      status: z.enum(["enabled", "disabled"]).optional().openapi({
        description: "disabled: it gets no more notices, and its pending deliveries fail",
      }),
    },
    { error: secretIsRotated("/api/v1/webhook-endpoints/{id}") },
  )
  .openapi("UpdateWebhookEndpoint");

const rotateSchema = z.strictObject({ overlap_hours: overlapSchema("signs") }).openapi("RotateWebhookSecret");

const endpointTestSchema = z
  .object({
    id: uuidSchema.openapi({ description: "the `webhook-id`" }),
    delivered: z.boolean().openapi({ description: "the endpoint answered 2xx" }),
    status: z.number().int().nullable().openapi({ description: "HTTP status of the answer" }),
    error: z.string().nullable().openapi({ description: "why there was no answer, as a code" }),
    duration_ms: z.number().int(),
    answer: z.string().nullable().openapi({ description: "the first 1,000 bytes of the answer's body" }),
  })
  .openapi("WebhookEndpointTest");

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

const routes = routesOf("Notices");

export const listWebhookEndpoints = routes.get("/api/v1/webhook-endpoints", {
  summary: "The caller's webhook endpoints, newest first",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ webhook_endpoints: webhookEndpointSchema }), "a page of endpoints") },
});

export const createWebhookEndpoint = routes.post("/api/v1/webhook-endpoints", {
  summary: "Have events delivered to a URL, signed by Standard Webhooks, or to your own e-mail address",
  scope: "billing:write",
  body: createWebhookEndpointSchema,
  answers: { 201: json(createdWebhookEndpointSchema, "the endpoint; its secret is shown this once") },
  fails: [409],
});

export const updateWebhookEndpoint = routes.patch("/api/v1/webhook-endpoints/{id}", {
  summary: "Change an endpoint's address or events, disable it, or enable it again",
  description: "Its secret stays.",
  scope: "billing:write",
  body: updateWebhookEndpointSchema,
  answers: { 200: json(webhookEndpointSchema, "the endpoint") },
  fails: [409],
});

export const rotateWebhookEndpoint = routes.post("/api/v1/webhook-endpoints/{id}/rotate", {
  summary: "Give the endpoint a new secret; the former one signs too for a while",
  description:
    "A delivery has the signatures of both, so the receiver may use either. Secrets of rotations before sign until their own time ends.",
  scope: "billing:write",
  optional_body: rotateSchema,
  answers: { 200: json(rotatedWebhookEndpointSchema, "the endpoint with its new secret, which is shown this once") },
  fails: [409],
});

export const testWebhookEndpoint = routes.post("/api/v1/webhook-endpoints/{id}/test", {
  summary: "Deliver a signed event `webhook.test` to the endpoint now, once",
  scope: "billing:write",
  answers: { 200: json(endpointTestSchema, "what the endpoint answered") },
});

export const listEndpointDeliveries = routes.get("/api/v1/webhook-endpoints/{id}/deliveries", {
  summary: "The deliveries of notices to the endpoint, newest first",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ deliveries: endpointDeliverySchema }), "a page of deliveries") },
});

export const resendDelivery = routes.post("/api/v1/webhook-endpoints/{id}/deliveries/{delivery_id}/resend", {
  summary: "Deliver a notice to the endpoint again, with the same `webhook-id`",
  scope: "billing:write",
  answers: { 200: json(endpointDeliverySchema, "the delivery, which is pending") },
  fails: [409],
});

export const deleteWebhookEndpoint = routes.delete("/api/v1/webhook-endpoints/{id}", {
  summary: "Delete an endpoint and its waiting deliveries",
  scope: "billing:write",
  answers: { 204: { description: "deleted" } },
});

export const listNotices = routes.get("/api/v1/notices", {
  summary: "The caller's notices and their deliveries, newest first",
  scope: "billing:read",
  query: listQuerySchema.extend({ event: eventSchema.optional() }),
  answers: { 200: json(pageSchema({ notices: listedNoticeSchema }), "a page of notices") },
});
