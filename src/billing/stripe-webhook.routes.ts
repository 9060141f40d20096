import { createRouter, type HttpRouter } from "../contract/router.ts";
import { stripeWebhook } from "../contract/stripe.ts";
import type { PaymentEvent } from "./payments.types.ts";
import type { StripePayments } from "./stripe.adapter.ts";

/** Receives Stripe's webhooks. A failure answers 5xx, so that Stripe delivers the event again. */
export function stripeWebhookRoutes(deps: {
  stripe: StripePayments;
  applyPaymentEvent(event: PaymentEvent): Promise<unknown>;
}): HttpRouter {
  const router = createRouter();
  router.openapi(stripeWebhook, async (c) => {
    const events = await deps.stripe.eventsOf(await c.req.text(), c.req.header("Stripe-Signature"));
    for (const event of events) await deps.applyPaymentEvent(event);
    return c.json({ received: true as const }, 200);
  });
  return router;
}
