import { createRoute, z } from "@hono/zod-openapi";
import { failures, json } from "./common.ts";

export const stripeWebhook = createRoute({
  method: "post",
  path: "/api/v1/billing/stripe/webhook",
  tags: ["Usage and billing"],
  summary: "Stripe's deliveries: signed, and harmless when replayed or out of order",
  responses: {
    200: json(z.object({ received: z.literal(true) }), "taken; Stripe need not send it again"),
    ...failures(400),
  },
});
