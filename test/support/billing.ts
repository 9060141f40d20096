import { createBilling } from "../../src/account/billing/billing.service.ts";
import type { PaymentEvent, PaymentProvider, Started } from "../../src/account/billing/payments.types.ts";
import { PAYMENT_INVARIANTS } from "../../src/account/billing/payments-audit.store.ts";
import type { Plan } from "../../src/account/billing/plan.ts";
import { readConfig } from "../../src/config/config.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addMonths } from "../../src/platform/lib/clock.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createLedgerFixture, LEDGER_TABLES } from "../properties/ledger-fixture.ts";

/** A provider that the test scripts, and that records its calls. Like Stripe it runs periods itself. */
export interface ScriptedPayments extends PaymentProvider {
  asked: { what: string; order: unknown }[];
  /** Sets the result of the call `what`: its events, or a failure that it throws. */
  answers: Partial<Record<string, PaymentEvent[] | Error>>;
}

function createScriptedPayments(): ScriptedPayments {
  const asked: ScriptedPayments["asked"] = [];
  const answers: ScriptedPayments["answers"] = {};
  const answer =
    (what: string) =>
    async (order: unknown): Promise<Started> => {
      asked.push({ what, order });
      const given = answers[what] ?? [];
      if (given instanceof Error) throw given;
      const checkout_url = what === "topUp" || what === "subscribe" ? "https://pay.example/page" : null;
      return { checkout_url, customer_reference: "customer-1", reference: "checkout-1", events: given };
    };
  return {
    provider: "stripe",
    runs_periods: true,
    asked,
    answers,
    topUp: answer("topUp"),
    changePlan: answer("changePlan"),
    chargeOverage: answer("chargeOverage"),
    chargeTopUp: answer("chargeTopUp"),
    subscribe: answer("subscribe"),
    withdraw: async (order) => (await answer("withdraw")(order)).events,
    refund: async (order) => {
      const { events } = await answer("refund")(order);
      if (events[0] === undefined) throw new Error("no answer to the refund");
      return events[0];
    },
    setCancelAtPeriodEnd: async (order) => void (await answer("setCancelAtPeriodEnd")(order)),
    endSubscription: async (order) => void (await answer("endSubscription")(order)),
  };
}

/** The default plans. */
export const { plans: PLANS } = readConfig({ PURSER_PAYMENTS: "none" });

/** Deletes all payments, and the accounts that they paid into. */
export const forgetPayments = (db: Db) =>
  db.query({
    text: `truncate payment_event, payment, payment_dispute, billing_account, auto_topup, subscription, ${LEDGER_TABLES}`,
  });

/** Billing over a real ledger. The test sends the provider's events itself, or passes another provider. */
export function createBillingFixture(db: Db, options: { provider?: PaymentProvider; plans?: readonly Plan[] } = {}) {
  const fixture = createLedgerFixture(db, "2026-01-31T00:00:00.000Z", PAYMENT_INVARIANTS);
  const { ledger, clock } = fixture;
  const payments = createScriptedPayments();
  const person = {
    id: "",
    email: "ada@example.com",
    created_at: "",
    suspended_at: null,
    limits: null,
    operator_role: null,
  };
  const users = { user: async (id: string) => ({ ...person, id }) };
  const money = { payments: options.provider ?? payments, plans: () => options.plans ?? PLANS };
  const calls: Parameters<typeof createBilling>[0] = { db, clock, ledger, users, log: createLog("silent"), ...money };
  const billing = createBilling(calls);
  let sequence = 0;
  const named = () => {
    sequence += 1;
    return { provider: "stripe" as const, event_id: `event-${sequence}` };
  };
  const balance = async (user_id: string) => {
    const { posted, debt } = await ledger.accountStatus(user_id);
    return { posted, debt };
  };
  return {
    ...fixture,
    billing,
    /** A test may set `notify` here. */
    calls,
    payments,
    named,
    balance,
    /** Applies the events one after the other, and returns their outcomes. */
    async applyAll(events: readonly PaymentEvent[]): Promise<string[]> {
      const outcomes: string[] = [];
      for (const event of events) outcomes.push(await billing.applyPaymentEvent(event));
      return outcomes;
    },
    /** The total refunds of a payment, and the part of them that failed. */
    refunded: (reference: string, refunded_cents: number, refund_failed_cents = 0): PaymentEvent => ({
      ...named(),
      kind: "refunded",
      reference,
      refunded_cents,
      refund_failed_cents,
    }),
    /** Does all work that is due now, as the sweeper would. */
    async sweep(): Promise<void> {
      await ledger.sweep();
      for (const source of billing.sources) await source.carryOut();
    },
    /** A pending top-up, and the event that says it was paid. */
    async orderTopUp(user_id: string, amount_cents: number) {
      const purchase = await billing.purchases.purchase(user_id, { amount_cents, success_url: null, cancel_url: null });
      const reference = `money-${purchase.id}`;
      const paid: PaymentEvent = { ...named(), kind: "paid", payment_id: purchase.id, reference, amount_cents };
      return { purchase, reference, paid };
    },
    /** A subscription with an open checkout, and the events of its paid periods. */
    async orderSubscription(user_id: string, plan_id: string) {
      await billing.subscribe(user_id, plan_id);
      const asked = payments.asked.findLast(({ what }) => what === "subscribe");
      if (asked === undefined) throw new Error("no checkout was opened");
      const { subscription_id } = asked.order as { subscription_id: string };
      const subscription_reference = `sub-${subscription_id}`;
      const anchor = clock.now();
      const periodPaid = (number: number, paid_plan = plan_id): PaymentEvent => ({
        ...named(),
        kind: "period_paid",
        subscription_id,
        subscription_reference,
        plan_id: paid_plan,
        period_start: addMonths(anchor, number - 1),
        period_end: addMonths(anchor, number),
        reference: `money-${subscription_id}-${number}`,
        amount_cents: 2900,
      });
      return { subscription_id, subscription_reference, periodPaid };
    },
  };
}

/** Every order of `items`. */
export const permutations = <Item>(items: Item[]): Item[][] =>
  items.length < 2
    ? [items]
    : items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
