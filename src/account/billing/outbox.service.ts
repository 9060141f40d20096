import { PurserError } from "../../kernel/errors.ts";
import { createSweepFailures, type DueSource } from "../../platform/db/sweeper.ts";
import type { BillingContext } from "./context.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Payer, PaymentEvent, PaymentProvider, Started } from "./payments.types.ts";

/** The number of orders that one sweep sends. */
const BATCH = 50;
/** Real time after which an order that the provider has not accepted is sent again. */
export const RETRY_SECONDS = 60;

/**
 * Orders that Purser itself sends: upgrades, overage, automatic top-ups, ends of subscriptions. Each is stored with its purpose, sent
 * after the commit, and retried until the provider accepts it; its id is the idempotency key.
 */
export function createOutbox(context: BillingContext, apply: (event: PaymentEvent) => Promise<unknown>) {
  const { orders, subscriptions } = context;

  const startOrder = async (payment: PaymentRow, provider: PaymentProvider): Promise<Started> => {
    const { id: payment_id, amount_cents, currency, subscription_id } = payment;
    const payer = await context.payerOf(payment.user_id);
    if (payment.automatic) return startTopUp(payment, payer, provider);
    const row = subscription_id === null ? undefined : await subscriptions.byId(subscription_id);
    const subscription_reference = row?.reference ?? null;
    if (payment.plan === null) {
      const description = `Overage: ${payment.tokens.toLocaleString("en-US")} tokens`;
      return provider.chargeOverage({ payment_id, payer, amount_cents, currency, description, subscription_reference });
    }
    if (row === undefined) throw new Error("The subscription of this upgrade does not exist.");
    const change = { subscription_id: row.id, subscription_reference, payer };
    if (payment.status === "pending") {
      return provider.changePlan({ ...change, plan: payment.plan, when: "now", payment_id, amount_cents });
    }
    // the upgrade is paid, so send the new price; if another change followed, send the newest plan
    const cancel = payment.undoes_cancellation ? { cancel: row.cancel_at_period_end } : {};
    return provider.changePlan({ ...change, plan: row.pending_plan ?? row.plan, when: "period_end", ...cancel });
  };

  /** Charges the payment method of the user's subscription, or the one that a purchase saved. */
  const startTopUp = async (payment: PaymentRow, payer: Payer, provider: PaymentProvider): Promise<Started> => {
    const { id: payment_id, amount_cents, currency } = payment;
    const running = await subscriptions.current(payment.user_id);
    const subscription_reference = running?.provider === payment.provider ? running.reference : null;
    const description = `Automatic top-up: ${payment.tokens.toLocaleString("en-US")} tokens`;
    return provider.chargeTopUp({ payment_id, payer, amount_cents, currency, description, subscription_reference });
  };

  /**
   * Whether an order may still be charged. Suspended users buy nothing, so their automatic top-ups wait. Orders of erased
   * users are withdrawn, and upgrades of ended subscriptions too. Overage is owed: its tokens are used.
   */
  const findState = async (payment: PaymentRow): Promise<"wanted" | "waiting" | "withdrawn"> => {
    if (payment.status !== "pending") return "wanted";
    if (payment.automatic) {
      const status = await context.userStatus(payment.user_id);
      return status === "active" ? "wanted" : status === "suspended" ? "waiting" : "withdrawn";
    }
    if (payment.plan === null || payment.subscription_id === null) return "wanted";
    const row = await subscriptions.byId(payment.subscription_id);
    return row?.status === "ended" ? "withdrawn" : "wanted";
  };

  /** Ends an order at the provider. Money that was taken before this is granted, as always. */
  const withdraw = async (payment: PaymentRow, provider: PaymentProvider): Promise<void> => {
    const { id: payment_id } = payment;
    const events = await provider.withdraw({ payment_id, payer: await context.payerOf(payment.user_id) });
    await orders.setAccepted(payment, { checkout_url: null, events });
    for (const event of events) await apply(event);
  };

  /**
   * Sends one order and applies the events that are already certain. A paid upgrade is sent again with its new price.
   * Throws the provider's error; a declined payment also fails the order.
   */
  const send = async (payment: PaymentRow): Promise<void> => {
    const provider = context.providerOf(payment.provider);
    if (provider === null) return;
    const state = await findState(payment);
    if (state === "waiting") return;
    if (state === "withdrawn") return withdraw(payment, provider);
    const { id: payment_id } = payment;
    try {
      if (payment.status === "pending" && payment.amount_cents === 0) await apply(paidWithoutCharge(payment));
      else {
        const started = await startOrder(payment, provider);
        await context.rememberCustomer(payment.user_id, payment.provider, started);
        await orders.setAccepted(payment, started);
        for (const event of started.events) await apply(event);
      }
    } catch (error) {
      if (error instanceof PurserError && error.code === "payment_failed") {
        const event_id = `refused:${payment_id}`;
        await apply({ provider: payment.provider, event_id, kind: "failed", payment_id });
      }
      throw error;
    }
    if (payment.status === "pending" && payment.plan !== null) await sendPrice(payment_id);
  };

  /** Sends the new price at once, so that no other change comes between. The next sweep retries a failure. */
  const sendPrice = async (payment_id: string): Promise<void> => {
    const upgrade = await orders.byId(payment_id);
    if (upgrade?.status === "succeeded" && upgrade.send_at !== null) await send(upgrade).catch(() => {});
  };

  /** Sends due orders and ends subscriptions at the provider. */
  const source: DueSource = {
    name: "orders",
    nextDueAt: async () => null,
    async carryOut() {
      const { attempt, throwAny } = createSweepFailures("orders");
      for (const payment of await orders.claimUnsent({ limit: BATCH, retry_seconds: RETRY_SECONDS })) {
        await attempt(send(payment));
      }
      for (const row of await subscriptions.toEndAtProvider(BATCH)) {
        const { id: subscription_id, reference: subscription_reference, checkout_reference } = row;
        const provider = context.providerOf(row.provider);
        if (provider === null) continue;
        const ending = provider.endSubscription({ subscription_id, subscription_reference, checkout_reference });
        await attempt(ending.then(() => subscriptions.setEndedAtProvider(row)));
      }
      throwAny();
    },
  };

  return { send, source };
}

export type Outbox = ReturnType<typeof createOutbox>;

/** An upgrade that costs 0 cents is paid at once, because no provider would report a payment. */
function paidWithoutCharge({ provider, id: payment_id }: PaymentRow): PaymentEvent {
  const event_id = `free:${payment_id}`;
  return { provider, event_id, kind: "paid", payment_id, reference: event_id, amount_cents: 0 };
}
