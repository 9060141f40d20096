import type { InSameTx, Tx } from "../../platform/db/db.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type BillingContext, limitUnpaidOrders } from "./context.ts";
import { payableUnits } from "./currency.ts";
import { dryRun } from "./dry-run.ts";
import { billingErrors } from "./errors.ts";
import type { Inbox } from "./inbox.service.ts";
import { type Outbox, RETRY_SECONDS } from "./outbox.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { PaymentProvider, ProviderName, ReturnUrls, Started } from "./payments.types.ts";
import type { Periods } from "./periods.service.ts";
import { type Plan, planChange, planWith, prorated } from "./plan.ts";
import { NOTHING_DUE, type Preview } from "./preview.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** A subscription as the API shows it. All fields are null with status `none`. */
export interface Subscription {
  plan_id: string | null;
  status: "none" | SubscriptionRow["status"];
  current_period_start: Instant | null;
  current_period_end: Instant | null;
  cancel_at_period_end: boolean;
  pending_plan_id: string | null;
  checkout_url?: string;
  sandbox?: true;
}

const NONE: Subscription = {
  plan_id: null,
  status: "none",
  current_period_start: null,
  current_period_end: null,
  cancel_at_period_end: false,
  pending_plan_id: null,
};

/** Real time after which a node that was opening a checkout counts as dead. */
const OPENING_SECONDS = 120;

/** The effect of choosing a plan, decided under the lock of the user's billing. */
type Choice =
  | { kind: "new" | "open" | "keep" | "downgrade"; row: SubscriptionRow }
  | { kind: "upgrade"; row: SubscriptionRow; payment: PaymentRow };

/** The action at the end of the period. `plan` is the plan to change to, or null. */
interface PeriodEnd {
  cancel: boolean;
  plan: Plan | null;
}

/** Chooses and cancels plans. A user has at most one subscription; `periods.service.ts` runs its periods. */
export function createSubscriptions(
  context: BillingContext,
  parts: { periods: Periods; inbox: Inbox; outbox: Outbox },
) {
  const { db, clock, accounts, subscriptions, orders } = context;
  const { periods, inbox, outbox } = parts;

  const insertNew = async (tx: Tx, user_id: string, plan: Plan, by: PaymentProvider) => {
    const provider = getProviderName(by);
    if (by.runs_periods) await limitUnpaidOrders(context, tx, user_id);
    const about = { user_id, id: newId(), provider, plan, created_at: clock.now() };
    const row = await subscriptions.insert(tx, about, OPENING_SECONDS);
    if (!by.runs_periods) await periods.beginNext(tx, row);
    return row;
  };

  /** Orders an upgrade: the difference for the rest of the period, in cents and in tokens. */
  const orderUpgrade = async (tx: Tx, row: SubscriptionRow, plan: Plan, by: PaymentProvider): Promise<PaymentRow> => {
    const { user_id, id: subscription_id, current_period_start: start, current_period_end: end } = row;
    const provider = getProviderName(by);
    // only Stripe can change a Stripe subscription; a subscription that Purser's clock renews cannot move to Stripe in
    // mid-period
    if (row.provider === "stripe" ? provider !== "stripe" : by.runs_periods)
      throw billingErrors.subscriptionPaidElsewhere(row.provider);
    if (start === null || end === null || row.status !== "active") throw billingErrors.subscriptionPastDue();
    // the next period has begun but its payment is unknown, so the difference cannot be computed
    if (end <= clock.now()) throw billingErrors.planChangeInFlight();
    if (await orders.some(user_id, { purpose: "upgrade", status: "pending" }, tx))
      throw billingErrors.planChangeInFlight();
    if (by.runs_periods) await limitUnpaidOrders(context, tx, user_id);
    const rest = { start, end, at: clock.now() };
    const difference_cents = prorated(plan.price_cents - row.plan.price_cents, rest);
    const amount_cents = difference_cents - (difference_cents % payableUnits(plan.currency));
    const tokens = prorated(Math.max(0, plan.included_tokens - row.plan.included_tokens), rest);
    const order = { amount_cents, currency: plan.currency, tokens, subscription_id, plan };
    const about = { user_id, id: newId(), purpose: "upgrade" as const, provider, created_at: clock.now() };
    const undoes_cancellation = row.cancel_at_period_end;
    return orders.insert(tx, { ...about, ...order, undoes_cancellation }, RETRY_SECONDS);
  };

  const decide = async (tx: Tx, user_id: string, plan: Plan, by: PaymentProvider): Promise<Choice> => {
    await accounts.lock(tx, user_id);
    const row = await periods.currentAfterDue(tx, user_id);
    if (row === undefined) return { kind: "new", row: await insertNew(tx, user_id, plan, by) };
    if (row.status === "incomplete") {
      if (await subscriptions.isOpening(tx, row)) throw billingErrors.planChangeInFlight();
      if (row.plan.id === plan.id && row.checkout_url !== null && by.runs_periods) return { kind: "open", row };
      await periods.end(tx, row, { notify_provider: true });
      return { kind: "new", row: await insertNew(tx, user_id, plan, by) };
    }
    const kind = planChange(row.plan, plan);
    if (kind === "upgrade") return { kind, row, payment: await orderUpgrade(tx, row, plan, by) };
    return { kind, row };
  };

  /** Records the result of opening a checkout. Its subscription may have been paid or ended meanwhile. */
  const recordOpened = (row: SubscriptionRow, started: Started | null) =>
    db.transaction(async (tx) => {
      await accounts.lock(tx, row.user_id);
      const now = await subscriptions.byId(row.id, tx);
      if (now === undefined) return;
      if (started !== null) {
        const { checkout_url, reference: checkout_reference } = started;
        const page = now.status === "incomplete" ? { checkout_url } : { end_at_provider: now.status === "ended" };
        await subscriptions.update(tx, now, { checkout_reference, opening_until: null, ...page });
      } else if (now.status === "incomplete") await periods.end(tx, now, { notify_provider: false });
    });

  /** Opens the checkout of a new subscription at a provider that runs periods. */
  const checkOut = async (row: SubscriptionRow, by: PaymentProvider, urls: ReturnUrls): Promise<void> => {
    const payer = await context.payerOf(row.user_id);
    const order = { subscription_id: row.id, payer, plan: row.plan, ...urls };
    const started = await by.subscribe(order).catch(async (error) => {
      await recordOpened(row, null);
      throw error;
    });
    await context.rememberCustomer(row.user_id, row.provider, started);
    await recordOpened(row, started);
    for (const event of started.events) await inbox.apply(event);
  };

  const notifyProvider = async (row: SubscriptionRow, wanted: PeriodEnd): Promise<void> => {
    if (row.provider !== "stripe") return;
    const provider = context.providerOf(row.provider);
    if (provider === null) throw billingErrors.paymentsNotConfigured();
    const running = { subscription_id: row.id, subscription_reference: row.reference };
    if (wanted.cancel !== row.cancel_at_period_end) {
      await provider.setCancelAtPeriodEnd({ ...running, cancel: wanted.cancel });
    }
    if (wanted.plan?.id !== row.pending_plan?.id) {
      const payer = await context.payerOf(row.user_id);
      await provider.changePlan({ ...running, payer, plan: wanted.plan ?? row.plan, when: "period_end" });
    }
  };

  /**
   * Sets the action at the end of the period, with `also` in the same transaction. The provider is changed first, because
   * its next invoice is what counts.
   */
  const setPeriodEnd = async (row: SubscriptionRow, wanted: PeriodEnd, also?: InSameTx<void>): Promise<void> => {
    await notifyProvider(row, wanted);
    await db.transaction(async (tx) => {
      await accounts.lock(tx, row.user_id);
      const current = await subscriptions.byId(row.id, tx);
      if (current === undefined || current.periods !== row.periods || current.status === "ended")
        throw billingErrors.planChangeInFlight();
      await subscriptions.update(tx, row, { cancel_at_period_end: wanted.cancel, pending_plan: wanted.plan });
      if (wanted.cancel) await orders.keepCancellation(tx, row);
      await also?.(tx);
    });
  };

  const current = async (user_id: string, tx?: Tx): Promise<Subscription> => {
    const row = await subscriptions.current(user_id, tx);
    return row === undefined ? NONE : subscriptionRecord(row);
  };

  return {
    current,

    /**
     * Chooses a plan for the user, paid through `by`: a new subscription, an upgrade now, or a downgrade at the end of
     * the period. Choosing the current plan undoes a pending change or cancellation. `also` runs in the transaction of the
     * change, or of an upgrade's order, and gets the subscription as it was before the choice.
     */
    async choose(
      user_id: string,
      plan_id: string,
      by: PaymentProvider,
      urls: ReturnUrls = { success_url: null, cancel_url: null },
      also?: InSameTx<Subscription>,
    ): Promise<{ subscription: Subscription; created: boolean }> {
      const plan = planWith(context.plans(), plan_id);
      const { before, ...choice } = await db.transaction(async (tx) => {
        await accounts.lock(tx, user_id);
        const before = await current(user_id, tx);
        const decided = await decide(tx, user_id, plan, by);
        if (!isSetAtPeriodEnd(decided)) await also?.(tx, before);
        return { ...decided, before };
      });
      const { kind, row } = choice;
      if (kind === "new") await (by.runs_periods ? checkOut(row, by, urls) : context.ledger.notifyGrant(user_id));
      else if (kind === "upgrade") await outbox.send(choice.payment);
      else if (isSetAtPeriodEnd(choice)) {
        const wanted = { cancel: false, plan: kind === "downgrade" ? plan : null };
        await setPeriodEnd(row, wanted, async (tx) => also?.(tx, before));
      }
      return { subscription: await current(user_id), created: kind === "new" };
    },

    /** What choosing this plan costs: the choice is made and rolled back. Throws as `choose` does before it asks a provider. */
    async preview(user_id: string, plan_id: string, by: PaymentProvider): Promise<Preview> {
      const wanted = planWith(context.plans(), plan_id);
      const { choice, after } = await dryRun(db, async (tx) => ({
        choice: await decide(tx, user_id, wanted, by),
        after: await subscriptions.current(user_id, tx),
      }));
      const { kind, row } = choice;
      const plan = kind === "keep" ? row.plan : wanted;
      const { currency, price_cents } = plan;
      const next = { at: after?.current_period_end ?? null, amount_cents: price_cents };
      const later = { ...NOTHING_DUE, currency, next };
      if (kind === "downgrade" || kind === "keep") return { ...later, change: kind };
      const { amount_cents, tokens } =
        kind === "upgrade" ? choice.payment : { amount_cents: price_cents, tokens: plan.included_tokens };
      return { ...later, change: kind === "upgrade" ? kind : "subscribe", due_now_cents: amount_cents, tokens };
    },

    /**
     * Ends the subscription at the end of the period, or an open checkout at once. Throws 404 when there is neither.
     * `also` runs in the transaction of the change, and gets the subscription as it was.
     */
    async cancel(user_id: string, also?: InSameTx<Subscription>): Promise<Subscription> {
      const row = await db.transaction(async (tx) => {
        await accounts.lock(tx, user_id);
        const found = await periods.currentAfterDue(tx, user_id);
        if (found === undefined) throw billingErrors.noSubscription();
        if (found.status !== "incomplete") return found;
        const ended = await periods.end(tx, found, { notify_provider: true });
        await also?.(tx, subscriptionRecord(found));
        return ended;
      });
      if (row.status === "ended") return subscriptionRecord(row);
      const before = subscriptionRecord(row);
      await setPeriodEnd(row, { cancel: true, plan: row.pending_plan }, async (tx) => also?.(tx, before));
      return current(user_id);
    },

    /**
     * Ends the subscription of a user in the transaction that erases them. The provider is notified after the commit.
     */
    async forget(tx: Tx, user_id: string): Promise<void> {
      await accounts.lock(tx, user_id);
      const row = await subscriptions.current(user_id, tx);
      if (row !== undefined) await periods.end(tx, row, { notify_provider: true });
    },
  };
}

/** Whether a choice is made only when the provider has confirmed it. */
function isSetAtPeriodEnd({ kind }: Choice): boolean {
  return kind === "keep" || kind === "downgrade";
}

/** The configured payment provider. Throws 503 when there is none. */
function getProviderName(by: PaymentProvider): ProviderName {
  if (by.provider === "none") throw billingErrors.paymentsNotConfigured();
  return by.provider;
}

function subscriptionRecord(row: SubscriptionRow): Subscription {
  const { status, current_period_start, current_period_end, cancel_at_period_end, checkout_url } = row;
  return {
    plan_id: row.plan.id,
    status,
    current_period_start,
    current_period_end,
    cancel_at_period_end,
    pending_plan_id: row.pending_plan?.id ?? null,
    ...(checkout_url === null ? {} : { checkout_url }),
    ...(row.provider === "sandbox" ? { sandbox: true as const } : {}),
  };
}
