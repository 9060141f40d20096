import { TOP_UP_MONTHS } from "../constants.ts";
import { addMonths } from "../platform/clock.ts";
import type { Tx } from "../platform/db.ts";
import type { DueSource } from "../platform/timeline.ts";
import { clawBackTarget } from "./claw-back.ts";
import type { Overage } from "./overage.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { EventOutcome, PaymentEvent } from "./payments.types.ts";
import type { Periods } from "./periods.service.ts";
import { type Plan, planWith } from "./plan.ts";
import type { BillingRoom } from "./room.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** How many waiting events one step takes. */
const BATCH = 50;

type Of<Kind extends PaymentEvent["kind"]> = Extract<PaymentEvent, { kind: Kind }>;
/** What one event did: whose tokens it granted, if any. */
interface Applied {
  outcome: "applied" | "waiting" | "ignored";
  granted?: string;
}

const APPLIED: Applied = { outcome: "applied" };
const IGNORED: Applied = { outcome: "ignored" };

/**
 * Takes in what providers tell, each event once, in one transaction with all that it does. Nothing depends on the order
 * in which events come: payments and periods are guarded by their state, money back is counted up, and an event whose
 * payment is not known yet waits for it.
 */
export function createInbox(room: BillingRoom, periods: Periods, overage: Overage) {
  const { db, clock, ledger, accounts, subscriptions, orders } = room;

  const paid = async (tx: Tx, event: Of<"paid">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment === undefined) return IGNORED;
    if (payment.status === "succeeded") return APPLIED;
    const { subscription_id } = payment;
    const subscription = subscription_id === null ? undefined : await subscriptions.byId(subscription_id, tx);
    const bucket_id = await grantFor(tx, payment, subscription);
    const { reference, amount_cents: paid_cents } = event;
    // an upgrade stays in the outbox: its provider may be still to be told of the new price
    const sent = payment.plan === null ? { send_at: null } : {};
    const done = { status: "succeeded" as const, checkout_url: null, ...sent };
    await orders.update(tx, payment, { ...done, reference, paid_cents, bucket_id });
    if (payment.plan !== null && subscription !== undefined) await takePlan(tx, subscription, payment, payment.plan);
    else if (payment.purpose === "overage") await syncOverage(tx, payment.user_id);
    return bucket_id === null ? APPLIED : { outcome: "applied", granted: payment.user_id };
  };

  /** The tokens that a payment bought, once; overage has been used already. */
  const grantFor = async (tx: Tx, payment: PaymentRow, row: SubscriptionRow | undefined): Promise<string | null> => {
    if (payment.purpose === "overage" || payment.tokens === 0) return null;
    const { user_id, tokens: amount_tokens } = payment;
    const grant = { user_id, amount_tokens, grant_key: `payment:${payment.id}` };
    const now = clock.now();
    if (row === undefined || row.current_period_end === null) {
      const lasting = { granted_at: now, expires_at: addMonths(now, TOP_UP_MONTHS) };
      return (await ledger.grant({ ...grant, ...lasting, source: "top_up", note: "Top-up" }, tx)).id;
    }
    const plan = payment.plan ?? row.plan;
    // from the order's instant: that lies within the period, however late the money is heard of
    const expires_at = addMonths(row.current_period_end, plan.rollover_months);
    const lasting = { granted_at: payment.created_at, expires_at, note: `Change to ${plan.name}` };
    return (await ledger.grant({ ...grant, ...lasting, source: "subscription" }, tx)).id;
  };

  /** Moves the subscription to the plan that was paid for; whoever changed it last pays for the next periods. */
  const takePlan = async (tx: Tx, row: SubscriptionRow, payment: PaymentRow, plan: Plan): Promise<void> => {
    if (row.status === "ended") return;
    const { provider } = payment;
    const taken = { plan: JSON.stringify(plan), pending_plan: null, provider };
    await overage.sync(tx, row.user_id, await subscriptions.update(tx, row, taken));
  };

  const failed = async (tx: Tx, event: Of<"failed">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment?.status !== "pending") return IGNORED;
    await orders.update(tx, payment, { status: "failed", send_at: null, checkout_url: null });
    if (payment.purpose === "overage") await syncOverage(tx, payment.user_id);
    return APPLIED;
  };

  const periodPaid = async (tx: Tx, event: Of<"period_paid">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined) return IGNORED;
    const plan = [row.plan, row.pending_plan].find((each) => each?.id === event.plan_id);
    const { period_start, period_end, reference, amount_cents: paid_cents } = event;
    const named = await subscriptions.update(tx, row, { reference: event.subscription_reference });
    const period = { period_start, period_end, reference, paid_cents };
    const granted = await periods.begin(tx, named, { plan: plan ?? planWith(room.plans, event.plan_id), ...period });
    return granted ? { outcome: "applied", granted: row.user_id } : APPLIED;
  };

  const pastDue = async (tx: Tx, event: Of<"subscription_past_due">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row?.status !== "active") return IGNORED;
    await overage.sync(tx, row.user_id, await subscriptions.update(tx, row, { status: "past_due" }));
    return APPLIED;
  };

  const ended = async (tx: Tx, event: Of<"subscription_ended">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined || row.status === "ended") return IGNORED;
    // a checkout that expired says nothing of a subscription that runs
    if (event.subscription_reference === null && row.status !== "incomplete") return IGNORED;
    await periods.end(tx, row, { tell_provider: false });
    return APPLIED;
  };

  type MoneyBack = Of<"refunded"> | Of<"disputed"> | Of<"dispute_closed">;
  /** Takes tokens back, or gives them back, so that altogether as much is gone as money is. */
  const moneyBack = async (tx: Tx, event: MoneyBack): Promise<Applied> => {
    const { provider, event_id } = event;
    const payment = await lockPayment(tx, await orders.byReference(tx, event));
    if (payment === undefined) return { outcome: "waiting" };
    const { user_id, id: payment_id } = payment;
    const refunded_cents =
      event.kind === "refunded" ? Math.max(event.refunded_cents, payment.refunded_cents) : payment.refunded_cents;
    if (event.kind !== "refunded") {
      const state = event.kind === "disputed" ? "open" : event.won ? "won" : "lost";
      const { dispute_reference, disputed_cents } = event;
      await orders.upsertDispute(tx, {
        provider,
        reference: dispute_reference,
        user_id,
        payment_id,
        disputed_cents,
        state,
      });
    }
    const disputed_cents = await orders.disputedCents(tx, payment);
    const clawed_back_tokens = clawBackTarget({ ...payment, refunded_cents, disputed_cents });
    const change = clawed_back_tokens - payment.clawed_back_tokens;
    await orders.update(tx, payment, { refunded_cents, clawed_back_tokens });
    const { bucket_id } = payment;
    if (bucket_id === null || change === 0) return APPLIED;
    const movement = { user_id, bucket_id, amount_tokens: Math.abs(change), key: `${provider}:${event_id}` };
    if (change > 0) await ledger.clawBack({ ...movement, reason: REASON[event.kind] }, tx);
    else await ledger.reinstate({ ...movement, reason: REASON[event.kind] }, tx);
    return change < 0 ? { outcome: "applied", granted: user_id } : APPLIED;
  };

  /** The payment as it stands once the user's billing is locked. */
  const lockPayment = async (tx: Tx, payment: PaymentRow | undefined): Promise<PaymentRow | undefined> => {
    if (payment === undefined) return undefined;
    await accounts.lock(tx, payment.user_id);
    return orders.byId(payment.id, tx);
  };
  const lockSubscription = async (tx: Tx, id: string): Promise<SubscriptionRow | undefined> => {
    const row = await subscriptions.byId(id, tx);
    if (row === undefined) return undefined;
    await accounts.lock(tx, row.user_id);
    return subscriptions.byId(id, tx);
  };
  const syncOverage = async (tx: Tx, user_id: string) =>
    overage.sync(tx, user_id, await subscriptions.current(user_id, tx));

  const carryOut = (tx: Tx, event: PaymentEvent): Promise<Applied> => {
    switch (event.kind) {
      case "paid":
        return paid(tx, event);
      case "failed":
        return failed(tx, event);
      case "period_paid":
        return periodPaid(tx, event);
      case "subscription_past_due":
        return pastDue(tx, event);
      case "subscription_ended":
        return ended(tx, event);
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
      event: JSON.stringify(event),
      outcome: "applied",
      received_at: clock.now(),
    });

  /** Applies an event that waited, if its payment is there and no other node was faster. */
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
    /** Applies an event, once, whatever came before it. Throws where it could not, and has then done nothing. */
    async apply(event: PaymentEvent): Promise<EventOutcome> {
      const applied = await db.transaction(async (tx): Promise<Applied | null> => {
        if (!(await receive(tx, event))) return null;
        const done = await carryOut(tx, event);
        if (done.outcome !== "applied") await orders.setOutcome(tx, event, done.outcome);
        return done;
      });
      if (applied === null) return "duplicate";
      if (applied.granted !== undefined) await ledger.notifyGrant(applied.granted);
      // whichever of a payment and its refund commits last finds the other here
      if ("reference" in event) await applyWaiting();
      return applied.outcome;
    },
    /** Waiting events whose payment came, where the process died between the two. */
    waiting: {
      name: "waiting payment events",
      nextDueAt: async () => null,
      carryOut: applyWaiting,
    } satisfies DueSource,
  };
}

export type Inbox = ReturnType<typeof createInbox>;

const REASON = { refunded: "Refunded", disputed: "Disputed", dispute_closed: "Dispute closed" } as const;
