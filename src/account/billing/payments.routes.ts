import { stripeWebhook } from "../../api/contract/billing.ts";
import { readPage } from "../../api/contract/common.ts";
import { createRouter, json, type Router } from "../../api/contract/endpoint.ts";
import * as contract from "../../api/contract/payments.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import type { Billing } from "./billing.service.ts";
import type { PaymentEvent } from "./payments.types.ts";
import type { StripePayments } from "./stripe.adapter.ts";

/** Subscribing, top-ups and overage. */
export function paymentsRoutes({ billing }: { billing: Billing }) {
  const { purchases, overage, auto_topups, invoices, payment_list } = billing;
  const router = createRouter();

  router.on(contract.getSubscription, async (request) => json(await billing.subscription(request.caller.user_id)));
  router.on(contract.subscribe, async (request) => {
    const { plan_id, ...urls } = request.body;
    const { subscription, created } = await billing.subscribe(request.caller.user_id, plan_id, returnUrls(urls));
    return json(subscription, created ? 201 : 200);
  });
  router.on(contract.cancelSubscription, async (request) =>
    json(await billing.cancelSubscription(request.caller.user_id)),
  );

  router.on(contract.purchase, async (request) => {
    const { amount_cents, tokens, ...urls } = request.body;
    const wanted = { amount_cents, tokens, ...returnUrls(urls) };
    return json(await purchases.purchase(request.caller.user_id, wanted), 201);
  });
  router.on(contract.listPurchases, async ({ caller, query }) => {
    const { page, next_cursor } = await readPage(query, (page_of) => purchases.list(caller.user_id, page_of));
    return json({ purchases: page, next_cursor });
  });
  router.on(contract.getPurchase, async (request) =>
    json(await purchases.one(request.caller.user_id, request.params.id)),
  );

  router.on(contract.getOverage, async ({ caller }) => json(await overage.status(caller.user_id)));
  router.on(contract.putOverage, async ({ caller, body }) => {
    const record = () => overage.status(caller.user_id);
    const { cap_tokens } = await changesIn(body, contract.OVERAGE_READ_ONLY, record);
    return json(await overage.setCap(caller.user_id, cap_tokens));
  });
  router.on(contract.enableOverage, async ({ caller }) => json(await overage.enable(caller.user_id)));
  router.on(contract.disableOverage, async ({ caller }) => json(await overage.disable(caller.user_id)));
  router.on(contract.getAutoTopup, async ({ caller }) => json(await auto_topups.get(caller.user_id)));
  router.on(contract.putAutoTopup, async ({ caller, body }) => {
    const record = () => auto_topups.get(caller.user_id);
    const changes = await changesIn(body, contract.AUTO_TOPUP_READ_ONLY, record);
    return json(await auto_topups.set(caller.user_id, changes));
  });
  router.on(contract.listPayments, async ({ caller, query }) => {
    const { page, next_cursor } = await readPage(query, (page_of) => payment_list.list(caller.user_id, page_of));
    return json({ payments: page, next_cursor });
  });
  router.on(contract.getPayment, async (request) =>
    json(await payment_list.one(request.caller.user_id, request.params.id)),
  );
  router.on(contract.previewPlan, async ({ caller, body }) =>
    json(await billing.previewPlan(caller.user_id, body.plan_id)),
  );
  router.on(contract.previewPurchase, async ({ caller, body }) => json(await purchases.preview(caller.user_id, body)));
  router.on(contract.previewOverage, async ({ caller, body: { enabled, cap_tokens } }) =>
    json(await overage.preview(caller.user_id, { overage_enabled: enabled, overage_cap_tokens: cap_tokens })),
  );
  router.on(contract.previewAutoTopup, async ({ caller, body }) =>
    json(await auto_topups.preview(caller.user_id, body)),
  );
  router.on(contract.listInvoices, async ({ caller: { user_id }, query }) => {
    const { status } = query;
    const { page, next_cursor } = await readPage(query, (page_of) => invoices.list({ user_id, status }, page_of));
    return json({ invoices: page.map(({ user_id: _, ...invoice }) => invoice), next_cursor });
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
}): Router {
  const router = createRouter();
  router.on(stripeWebhook, async (request) => {
    const events = await deps.stripe.eventsOf(request.sent_body, request.header("stripe-signature"));
    for (const event of events) await deps.applyPaymentEvent(event);
    return json({ received: true as const });
  });
  return router;
}
