import { stripeWebhook } from "../../api/contract/billing.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import * as contract from "../../api/contract/payments.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { createRouter, type HttpRouter } from "../../api/contract/router.ts";
import type { Billing } from "./billing.service.ts";
import type { PaymentEvent } from "./payments.types.ts";
import type { StripePayments } from "./stripe.adapter.ts";

/** Subscribing, top-ups and overage. */
export function paymentsRoutes({ billing }: { billing: Billing }) {
  const { purchases, overage, auto_topups, invoices } = billing;
  const router = createRouter();

  router.openapi(contract.getSubscription, async (c) =>
    c.json(await billing.subscription(c.get("caller").user_id), 200),
  );
  router.openapi(contract.subscribe, async (c) => {
    const { plan_id, ...urls } = c.req.valid("json");
    const { subscription, created } = await billing.subscribe(c.get("caller").user_id, plan_id, returnUrls(urls));
    return c.json(subscription, created ? 201 : 200);
  });
  router.openapi(contract.cancelSubscription, async (c) =>
    c.json(await billing.cancelSubscription(c.get("caller").user_id), 200),
  );

  router.openapi(contract.purchase, async (c) => {
    const { amount_cents, tokens, ...urls } = c.req.valid("json");
    const wanted = { amount_cents, tokens, ...returnUrls(urls) };
    return c.json(await purchases.purchase(c.get("caller").user_id, wanted), 201);
  });
  router.openapi(contract.listPurchases, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const rows = await purchases.list(c.get("caller").user_id, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ purchases: page, next_cursor }, 200);
  });
  router.openapi(contract.getPurchase, async (c) =>
    c.json(await purchases.one(c.get("caller").user_id, c.req.valid("param").id), 200),
  );

  router.openapi(contract.getOverage, async (c) => c.json(await overage.status(c.get("caller").user_id), 200));
  router.openapi(contract.putOverage, async (c) => {
    const { user_id } = c.get("caller");
    const record = () => overage.status(user_id);
    const { cap_tokens } = await changesIn(c.req.valid("json"), contract.OVERAGE_READ_ONLY, record);
    return c.json(await overage.setCap(user_id, cap_tokens), 200);
  });
  router.openapi(contract.enableOverage, async (c) => c.json(await overage.enable(c.get("caller").user_id), 200));
  router.openapi(contract.disableOverage, async (c) => c.json(await overage.disable(c.get("caller").user_id), 200));
  router.openapi(contract.getAutoTopup, async (c) => c.json(await auto_topups.get(c.get("caller").user_id), 200));
  router.openapi(contract.putAutoTopup, async (c) => {
    const { user_id } = c.get("caller");
    const record = () => auto_topups.get(user_id);
    const changes = await changesIn(c.req.valid("json"), contract.AUTO_TOPUP_READ_ONLY, record);
    return c.json(await auto_topups.set(user_id, changes), 200);
  });
  router.openapi(contract.listInvoices, async (c) => {
    const { limit, cursor, status } = c.req.valid("query");
    const { user_id } = c.get("caller");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const rows = await invoices.list({ user_id, status }, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ invoices: page.map(({ user_id: _, ...invoice }) => invoice), next_cursor }, 200);
  });
  return router;
}

function returnUrls({
  success_url,
  cancel_url,
}: {
  success_url?: string | undefined;
  cancel_url?: string | undefined;
}) {
  return { success_url: success_url ?? null, cancel_url: cancel_url ?? null };
}

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
