import type { InSameTx, Tx } from "../../platform/db/db.ts";
import type { DueSource } from "../../platform/db/sweeper.ts";
import { addDays } from "../../platform/lib/clock.ts";
import type { AutoTopups } from "./auto-topup.service.ts";
import { type Applied, type BillingContext, IGNORED } from "./context.ts";
import { createOrderEvents } from "./order-events.ts";
import type { Overage } from "./overage.service.ts";
import type { EventOutcome, PaymentEvent } from "./payments.types.ts";
import type { Periods } from "./periods.service.ts";
import { createReturnedMoney } from "./returned-money.ts";
import { createSubscriptionEvents } from "./subscription-events.ts";

/** The number of waiting events that one step applies. */
const BATCH = 50;
/**
 * contract 5.8.2. Stripe sends an event again for 3 days and lists it for 30. So by then an event does not come again, and
 * the payment of a waiting one does not come any more: another program on the same Stripe account took it.
 */
const KEPT_DAYS = 35;

/**
 * Applies provider events, each once, in one transaction with all of its effects. The order of events does not matter:
 * state guards protect payments and periods, refunds are totals, and an event without its payment waits.
 */
export function createInbox(context: BillingContext, periods: Periods, overage: Overage, auto_topups: AutoTopups) {
  const { db, clock, ledger, orders } = context;
  const orderEvents = createOrderEvents(context, overage, auto_topups);
  const subscriptionEvents = createSubscriptionEvents(context, periods, overage);
  const moneyBack = createReturnedMoney(context, auto_topups);

  const carryOut = (tx: Tx, event: PaymentEvent): Promise<Applied> => {
    switch (event.kind) {
      case "paid":
        return orderEvents.paid(tx, event);
      case "failed":
        return orderEvents.failed(tx, event);
      case "voided":
        return orderEvents.voided(tx, event);
      case "period_paid":
        return subscriptionEvents.periodPaid(tx, event);
      case "subscription_past_due":
        return subscriptionEvents.pastDue(tx, event);
      case "subscription_ended":
        return subscriptionEvents.ended(tx, event);
      case "refunded":
      case "disputed":
      case "dispute_closed":
        return moneyBack(tx, event);
    }
  };

  const receive = (tx: Tx, event: PaymentEvent): Promise<boolean> =>
    orders.insertEvent(tx, {
      provider: event.provider,
      event_id: event.event_id,
      kind: event.kind,
      reference: "reference" in event ? event.reference : null,
      event,
      outcome: "applied",
      received_at: clock.now(),
    });

  /** Applies waiting events whose payment exists now. Skips events that another node applied first. */
  const applyWaiting = async (): Promise<void> => {
    for (const event of await orders.waitingEvents(BATCH)) {
      const applied = await db.transaction(async (tx) => {
        if ((await orders.lockWaiting(tx, event)) === undefined) return IGNORED;
        const done = await carryOut(tx, event);
        await orders.setOutcome(tx, event, done.outcome);
        return done;
      });
      if (applied.granted !== undefined) await ledger.notifyGrant(applied.granted);
    }
  };

  return {
    /** Applies an event once, with `also` in the same transaction. If it throws, nothing has changed. */
    async apply(event: PaymentEvent, also?: InSameTx<Applied>): Promise<EventOutcome> {
      const applied = await db.transaction(async (tx): Promise<Applied | null> => {
        if (!(await receive(tx, event))) return null;
        const done = await carryOut(tx, event);
        if (done.outcome !== "applied") await orders.setOutcome(tx, event, done.outcome);
        await also?.(tx, done);
        return done;
      });
      if (applied === null) return "duplicate";
      if (applied.granted !== undefined) await ledger.notifyGrant(applied.granted);
      // a payment and its refund can commit in any order; the later one applies the waiting event
      if ("reference" in event) await applyWaiting();
      return applied.outcome;
    },
    /** Applies waiting events whose payment arrived just before the process died. */
    waiting: {
      name: "waiting payment events",
      nextDueAt: async () => null,
      carryOut: applyWaiting,
    } satisfies DueSource,
    /** Deletes old events; called periodically. */
    sweep: () => orders.deleteEventsBefore(addDays(clock.now(), -KEPT_DAYS)),
  };
}

export type Inbox = ReturnType<typeof createInbox>;
