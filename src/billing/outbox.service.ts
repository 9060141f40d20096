import { PurserError } from "../errors.ts";
import type { DueSource } from "../platform/timeline.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { PaymentEvent, Payments, Started } from "./payments.types.ts";
import type { BillingRoom } from "./room.ts";

/** How many orders one step of a sweep sends. */
const BATCH = 50;
/** Real time after which an order that the provider has not taken is sent again. */
export const RETRY_SECONDS = 60;

/**
 * Orders that the service itself gives: upgrades, overage, ends of subscriptions. Each is written with what it is for
 * and sent after that is committed, again and again until the provider has taken it; ids keep it from charging twice.
 */
export function createOutbox(room: BillingRoom, apply: (event: PaymentEvent) => Promise<unknown>) {
  const { db, orders, subscriptions } = room;

  const startOrder = async (payment: PaymentRow, payments: Payments): Promise<Started> => {
    const { id: payment_id, amount_cents, currency, subscription_id } = payment;
    const payer = await room.payerOf(payment.user_id);
    const row = subscription_id === null ? undefined : await subscriptions.byId(subscription_id);
    const subscription_reference = row?.reference ?? null;
    if (payment.plan === null) {
      const description = `Overage: ${payment.tokens.toLocaleString("en-US")} tokens`;
      return payments.chargeOverage({ payment_id, payer, amount_cents, currency, description, subscription_reference });
    }
    if (row === undefined) throw new Error("an upgrade without its subscription");
    const change = { subscription_id: row.id, subscription_reference, payer };
    if (payment.status === "pending") {
      return payments.changePlan({ ...change, plan: payment.plan, when: "now", payment_id, amount_cents });
    }
    // it is paid, so the new price is told. Another change may have followed: what holds by now is what is told.
    return payments.changePlan({ ...change, plan: row.pending_plan ?? row.plan, when: "period_end" });
  };

  /**
   * Sends one order and applies what is certain at once. An upgrade that is paid is sent again, as its price. Throws what
   * the provider throws; a refusal fails the payment.
   */
  const send = async (payment: PaymentRow): Promise<void> => {
    const payments = room.paymentsOf(payment.provider);
    if (payments === null) return;
    const { provider, id: payment_id } = payment;
    try {
      if (payment.status === "pending" && payment.amount_cents === 0) await apply(freeOf(payment));
      else {
        const started = await startOrder(payment, payments);
        await room.rememberCustomer(payment.user_id, provider, started);
        await orders.setTaken(payment, started.checkout_url);
        for (const event of started.events) await apply(event);
      }
    } catch (error) {
      if (error instanceof PurserError && error.code === "payment_failed") {
        await apply({ provider, event_id: `refused:${payment_id}`, kind: "failed", payment_id });
      }
      throw error;
    }
    if (payment.status === "pending" && payment.plan !== null) await sendPrice(payment_id);
  };

  /** At once, so that no other change comes between; what the provider does not take now, the next sweep sends. */
  const sendPrice = async (payment_id: string): Promise<void> => {
    const upgrade = await orders.byId(payment_id);
    if (upgrade?.status === "succeeded" && upgrade.send_at !== null) await send(upgrade).catch(() => {});
  };

  /** What is to be sent, and ended, now. */
  const source: DueSource = {
    name: "orders",
    nextDueAt: async () => null,
    async carryOut() {
      const failures: unknown[] = [];
      const attempt = (work: Promise<void>) => work.catch((error) => failures.push(error));
      for (const payment of await orders.takeUnsent({ limit: BATCH, retry_seconds: RETRY_SECONDS })) {
        await attempt(send(payment));
      }
      for (const row of await subscriptions.toEndAtProvider(BATCH)) {
        const { id: subscription_id, reference: subscription_reference, checkout_reference } = row;
        const payments = room.paymentsOf(row.provider);
        if (payments === null) continue;
        const ending = payments.endSubscription({ subscription_id, subscription_reference, checkout_reference });
        await attempt(ending.then(async () => void (await subscriptions.update(db, row, { end_at_provider: false }))));
      }
      if (failures.length > 0) throw new AggregateError(failures, `${failures.length} orders failed: ${failures[0]}`);
    },
  };

  return { send, source };
}

export type Outbox = ReturnType<typeof createOutbox>;

/** Where there is nothing to pay, no provider would ever say that it was paid. */
function freeOf({ provider, id: payment_id }: PaymentRow): PaymentEvent {
  const event_id = `free:${payment_id}`;
  return { provider, event_id, kind: "paid", payment_id, reference: event_id, amount_cents: 0 };
}
