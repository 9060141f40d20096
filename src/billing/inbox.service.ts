import { TOP_UP_MONTHS } from "../constants.ts";
import { addMonths } from "../platform/clock.ts";
import type { Instant, Tx } from "../platform/db.ts";
import type { DueSource } from "../platform/timeline.ts";
import type { BillingContext } from "./context.ts";
import { isMismatch, mismatchColumns, mismatchOver } from "./mismatch.ts";
import type { Overage } from "./overage.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Billed, EventOutcome, PaymentEvent } from "./payments.types.ts";
import type { Periods } from "./periods.service.ts";
import { type Plan, planWith } from "./plan.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** The number of waiting events that one step applies. */
const BATCH = 50;

type Of<Kind extends PaymentEvent["kind"]> = Extract<PaymentEvent, { kind: Kind }>;
/** The effect of one event. `granted` is the user who received tokens, if any. */
interface Applied {
  outcome: "applied" | "waiting" | "ignored";
  granted?: string;
}

const APPLIED: Applied = { outcome: "applied" };
const IGNORED: Applied = { outcome: "ignored" };

/**
 * Applies provider events, each once, in one transaction with all of its effects. The order of events does not matter:
 * state guards protect payments and periods, refunds are totals, and an event without its payment waits.
 */
export function createInbox(context: BillingContext, periods: Periods, overage: Overage) {
  const { db, clock, ledger, accounts, subscriptions, orders, log } = context;

  const paid = async (tx: Tx, event: Of<"paid">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment === undefined) return IGNORED;
    if (payment.status === "succeeded") return APPLIED;
    if (payment.purpose !== "overage" && isMismatch(payment, event.billed)) {
      logMismatch(payment, event, event.billed);
      await orders.update(tx, payment, { ...mismatchColumns(event.billed), reference: event.reference });
      return APPLIED;
    }
    const { subscription_id } = payment;
    const subscription = subscription_id === null ? undefined : await subscriptions.byId(subscription_id, tx);
    const bucket_id = await grantFor(tx, payment, subscription);
    const { reference, amount_cents: paid_cents } = event;
    const done = { status: "succeeded" as const, checkout_url: null, send_at: null };
    await orders.update(tx, payment, { ...done, ...mismatchOver(payment), reference, paid_cents, bucket_id });
    // the provider learns the new price only after the upgrade is paid
    if (payment.plan !== null && payment.provider === "stripe") await orders.sendNow(tx, payment);
    if (payment.plan !== null && subscription !== undefined)
      await applyPaidPlan(tx, subscription, payment, payment.plan);
    else if (payment.purpose === "overage") await syncOverage(tx, payment.user_id);
    return bucket_id === null ? APPLIED : { outcome: "applied", granted: payment.user_id };
  };

  const logMismatch = (
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

  /** Grants the tokens that a payment bought, once. Overage grants nothing, because its tokens were already used. */
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
    // the grant starts when the order was made, so it lies within the period even if the payment arrives late
    const expires_at = addMonths(row.current_period_end, plan.rollover_months);
    const lasting = { granted_at: payment.created_at, expires_at, note: `Change to ${plan.name}` };
    return (await ledger.grant({ ...grant, ...lasting, source: "subscription" }, tx)).id;
  };

  /** Moves the subscription to the paid plan. The provider of this payment charges for the next periods. */
  const applyPaidPlan = async (tx: Tx, row: SubscriptionRow, payment: PaymentRow, plan: Plan): Promise<void> => {
    if (row.status === "ended") return;
    const { provider } = payment;
    const taken = { plan: JSON.stringify(plan), pending_plan: null, provider };
    await overage.sync(tx, row.user_id, await subscriptions.update(tx, row, taken));
  };

  const failed = async (tx: Tx, event: Of<"failed">): Promise<Applied> => {
    const payment = await lockPayment(tx, await orders.byId(event.payment_id, tx));
    if (payment?.status !== "pending") return IGNORED;
    // an unpaid overage invoice keeps its payment page
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
    const plan = known ?? planWith(context.plans(), event.plan_id);
    const { period_start, period_end, reference, amount_cents: paid_cents, billed } = event;
    const named = await subscriptions.update(tx, row, { reference: event.subscription_reference });
    const period = { plan, period_start, period_end, reference, paid_cents };
    const ordered = { amount_cents: plan.price_cents, currency: plan.currency };
    if (isMismatch(ordered, billed)) {
      const recorded = await periods.recordMismatch(tx, named, { ...period, billed });
      if (recorded !== null) logMismatch(recorded, event, billed);
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
    // a late event: this period, or a later one, is already paid
    if (period_start <= row.current_period_start) return IGNORED;
    await overage.sync(tx, row.user_id, await subscriptions.update(tx, row, { status: "past_due" }));
    return APPLIED;
  };

  const ended = async (tx: Tx, event: Of<"subscription_ended">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined || row.status === "ended") return IGNORED;
    // an expired checkout does not affect a running subscription
    if (event.subscription_reference === null && row.status !== "incomplete") return IGNORED;
    await periods.end(tx, row, { notify_provider: false });
    return APPLIED;
  };

  type MoneyBack = Of<"refunded"> | Of<"disputed"> | Of<"dispute_closed">;
  /** Takes tokens back, or returns them, until the tokens taken match the money returned. */
  const moneyBack = async (tx: Tx, event: MoneyBack): Promise<Applied> => {
    const { provider, event_id } = event;
    const payment = await lockPayment(tx, await orders.byReference(tx, event));
    if (payment === undefined) return { outcome: "waiting" };
    const { user_id, id: payment_id } = payment;
    let { refunded_cents, refund_failed_cents } = payment;
    if (event.kind === "refunded") {
      // totals only grow, so the larger one is the newer one
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

  /** Grants the tokens of overage that was paid after all, when a grant has already repaid its debt. */
  const giveBack = async (tx: Tx, { user_id, key }: { user_id: string; key: string }, amount_tokens: number) => {
    if (amount_tokens === 0) return;
    const lasting = { granted_at: clock.now(), expires_at: addMonths(clock.now(), TOP_UP_MONTHS) };
    const grant = { user_id, amount_tokens, source: "top_up" as const, grant_key: `given-back:${key}` };
    await ledger.grant({ ...grant, ...lasting, note: "Overage, paid later" }, tx);
  };

  /** Locks the user's billing and reads the payment again. */
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
    /** Applies an event once. If it throws, nothing has changed. */
    async apply(event: PaymentEvent): Promise<EventOutcome> {
      const applied = await db.transaction(async (tx): Promise<Applied | null> => {
        if (!(await receive(tx, event))) return null;
        const done = await carryOut(tx, event);
        if (done.outcome !== "applied") await orders.setOutcome(tx, event, done.outcome);
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
  };
}

export type Inbox = ReturnType<typeof createInbox>;

const REASON = { refunded: "Refunded", disputed: "Disputed", dispute_closed: "Dispute closed" } as const;

/** Money of a payment that was returned or is disputed. Amounts in cents of the paid sum. */
interface ReturnedMoney {
  tokens: number;
  paid_cents: number;
  /** Sum of refunds that did not fail, and of disputes that are open or lost. */
  back_cents: number;
}

/**
 * The total tokens to take back from a payment: proportional to the returned money, rounded down until all of it is
 * returned. A payment of 0 cents takes nothing back.
 */
export function clawBackTarget({ tokens, paid_cents, back_cents }: ReturnedMoney): number {
  if (paid_cents === 0) return 0;
  return Number((BigInt(tokens) * BigInt(Math.min(paid_cents, back_cents))) / BigInt(paid_cents));
}
