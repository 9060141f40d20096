import { TOP_UP_MONTHS } from "../constants.ts";
import { addMonths } from "../platform/clock.ts";
import type { Instant, Tx } from "../platform/db.ts";
import type { DueSource } from "../platform/timeline.ts";
import { clawBackTarget } from "./claw-back.ts";
import { isMismatch, mismatchColumns, mismatchOver } from "./mismatch.ts";
import type { Overage } from "./overage.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Billed, EventOutcome, PaymentEvent } from "./payments.types.ts";
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
  const { db, clock, ledger, accounts, subscriptions, orders, log } = room;

  const paid = async (tx: Tx, event: Of<"paid">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment === undefined) return IGNORED;
    if (payment.status === "succeeded") return APPLIED;
    if (payment.purpose !== "overage" && isMismatch(payment, event.billed)) {
      noteMismatch(payment, event, event.billed);
      await orders.update(tx, payment, { ...mismatchColumns(event.billed), reference: event.reference });
      return APPLIED;
    }
    const { subscription_id } = payment;
    const subscription = subscription_id === null ? undefined : await subscriptions.byId(subscription_id, tx);
    const bucket_id = await grantFor(tx, payment, subscription);
    const { reference, amount_cents: paid_cents } = event;
    const done = { status: "succeeded" as const, checkout_url: null, send_at: null };
    await orders.update(tx, payment, { ...done, ...mismatchOver(payment), reference, paid_cents, bucket_id });
    // whoever runs the subscription is told of its new price, once that has been paid for
    if (payment.plan !== null && payment.provider === "stripe") await orders.sendNow(tx, payment);
    if (payment.plan !== null && subscription !== undefined) await takePlan(tx, subscription, payment, payment.plan);
    else if (payment.purpose === "overage") await syncOverage(tx, payment.user_id);
    return bucket_id === null ? APPLIED : { outcome: "applied", granted: payment.user_id };
  };

  const noteMismatch = (
    ordered: Pick<PaymentRow, "user_id" | "amount_cents" | "currency"> & { id: string },
    { event_id, reference }: Pick<Of<"paid">, "event_id" | "reference">,
    { amount_cents: billed_cents, currency: billed_currency }: Billed,
  ) => {
    const { user_id, id: payment_id, amount_cents, currency } = ordered;
    log.warn(
      { user_id, payment_id, event_id, reference, amount_cents, currency, billed_cents, billed_currency },
      "a payment is not what was ordered and grants nothing: see GET /api/v1/admin/purchases?status=mismatch",
    );
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
    // an unpaid invoice can still be paid where that was possible before
    const is_owed = payment.purpose === "overage";
    await orders.update(tx, payment, { status: "failed", send_at: null, ...(is_owed ? {} : { checkout_url: null }) });
    if (is_owed) await syncOverage(tx, payment.user_id);
    return APPLIED;
  };

  const voided = async (tx: Tx, event: Of<"voided">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment?.purpose !== "overage") return failed(tx, { ...event, kind: "failed" });
    if (payment.status === "succeeded") return IGNORED;
    await orders.update(tx, payment, { status: "void", send_at: null, checkout_url: null });
    await syncOverage(tx, payment.user_id);
    return APPLIED;
  };

  const periodPaid = async (tx: Tx, event: Of<"period_paid">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined) return IGNORED;
    const known = [row.plan, row.pending_plan].find((each) => each?.id === event.plan_id);
    const plan = known ?? planWith(room.plans, event.plan_id);
    const { period_start, period_end, reference, amount_cents: paid_cents, billed } = event;
    const named = await subscriptions.update(tx, row, { reference: event.subscription_reference });
    const period = { plan, period_start, period_end, reference, paid_cents };
    const ordered = { amount_cents: plan.price_cents, currency: plan.currency };
    if (isMismatch(ordered, billed)) {
      const recorded = await periods.recordMismatch(tx, named, { ...period, billed });
      if (recorded !== null) noteMismatch(recorded, event, billed);
      await markPastDue(tx, named, period_start);
      return APPLIED;
    }
    const granted = await periods.begin(tx, named, period);
    return granted ? { outcome: "applied", granted: row.user_id } : APPLIED;
  };

  const pastDue = async (tx: Tx, event: Of<"subscription_past_due">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    return row === undefined ? IGNORED : markPastDue(tx, row, event.period_start);
  };

  const markPastDue = async (tx: Tx, row: SubscriptionRow, period_start: Instant): Promise<Applied> => {
    if (row.status !== "active" || row.current_period_start === null) return IGNORED;
    // late news of a period that is known to be paid by now, or that a paid one has followed
    if (period_start <= row.current_period_start) return IGNORED;
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
    let { refunded_cents, refund_failed_cents } = payment;
    if (event.kind === "refunded") {
      // sums that only grow: whichever event is the later one says more
      refunded_cents = Math.max(refunded_cents, event.refunded_cents);
      refund_failed_cents = Math.max(refund_failed_cents, event.refund_failed_cents);
    } else {
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
    const back_cents = refunded_cents - refund_failed_cents + disputed_cents;
    const clawed_back_tokens = clawBackTarget({ ...payment, back_cents });
    const change = clawed_back_tokens - payment.clawed_back_tokens;
    await orders.update(tx, payment, { refunded_cents, refund_failed_cents, clawed_back_tokens });
    if (change === 0) return APPLIED;
    const { bucket_id } = payment;
    const key = `${provider}:${event_id}`;
    const movement = { user_id, bucket_id, amount_tokens: Math.abs(change), reason: REASON[event.kind], key };
    if (change > 0) {
      await ledger.clawBack(movement, tx);
      return APPLIED;
    }
    const { reversed_tokens } = await ledger.reinstate(movement, tx);
    if (bucket_id === null) await giveBack(tx, movement, -change - reversed_tokens);
    return { outcome: "applied", granted: user_id };
  };

  /** Overage that was paid for after all, and whose debt a grant has repaid meanwhile: its tokens, to be used anew. */
  const giveBack = async (tx: Tx, { user_id, key }: { user_id: string; key: string }, amount_tokens: number) => {
    if (amount_tokens === 0) return;
    const lasting = { granted_at: clock.now(), expires_at: addMonths(clock.now(), TOP_UP_MONTHS) };
    const grant = { user_id, amount_tokens, source: "top_up" as const, grant_key: `given-back:${key}` };
    await ledger.grant({ ...grant, ...lasting, note: "Overage, paid for after all" }, tx);
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
      case "voided":
        return voided(tx, event);
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
