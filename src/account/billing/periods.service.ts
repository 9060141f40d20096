import type { Tx } from "../../platform/db/db.ts";
import { createSweepFailures, type DueSource } from "../../platform/db/sweeper.ts";
import { addMonths } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BillingContext } from "./context.ts";
import { mismatchColumns, mismatchOver } from "./mismatch.ts";
import type { Overage } from "./overage.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Billed, Renewal } from "./payments.types.ts";
import { computePeriod, type Plan } from "./plan.ts";
import { paidCents } from "./simulated-payments.ts";
import type { DuePosition, SubscriptionRow } from "./subscriptions.store.ts";

/** A paid period. */
export interface PaidPeriod {
  plan: Plan;
  period_start: Instant;
  period_end: Instant;
  reference: string;
  paid_cents: number;
}

/** Listener for renewals. It runs in the renewal's transaction and may await only SQL. */
export type OnRenewed = (renewal: Renewal, tx: Tx) => Promise<void>;

/** Starts, renews and ends subscriptions. Callers hold the lock on the user's billing. */
export function createPeriods(context: BillingContext, overage: Overage, notifyRenewed: OnRenewed) {
  const { db, clock, ledger, accounts, subscriptions, orders } = context;

  /** Inserts the order of a period: the plan at its price. */
  const orderPeriod = (tx: Tx, { user_id, id: subscription_id, provider }: SubscriptionRow, paid: PaidPeriod) => {
    const { plan, period_start } = paid;
    const order = { amount_cents: plan.price_cents, currency: plan.currency, tokens: plan.included_tokens };
    return orders.insert(
      tx,
      {
        id: newId(),
        user_id,
        provider,
        subscription_id,
        period_start,
        purpose: "period" as const,
        created_at: clock.now(),
        ...order,
      },
      null,
    );
  };

  /** Grants the tokens of a paid period. They expire when the plan's rollover after the period ends. */
  const grantPeriod = async (tx: Tx, row: SubscriptionRow, paid: PaidPeriod, ordered?: PaymentRow): Promise<void> => {
    const { user_id, id: subscription_id } = row;
    const { plan, period_start, reference, paid_cents } = paid;
    const now = clock.now();
    const bucket = await ledger.grant(
      {
        user_id,
        amount_tokens: plan.included_tokens,
        source: "subscription",
        granted_at: period_start < now ? period_start : now,
        expires_at: addMonths(paid.period_end, plan.rollover_months),
        note: plan.name,
        grant_key: `subscription:${subscription_id}:${period_start}`,
      },
      tx,
    );
    const payment = ordered ?? (await orderPeriod(tx, row, paid));
    await orders.update(tx, payment, {
      status: "succeeded" as const,
      reference,
      paid_cents,
      bucket_id: bucket.id,
      ...mismatchOver(payment),
    });
  };

  /** Records a period whose invoice differs from the plan's price; it grants nothing. Null: the period is already known. */
  const recordMismatch = async (
    tx: Tx,
    row: SubscriptionRow,
    { billed, ...paid }: PaidPeriod & { billed: Billed },
  ): Promise<PaymentRow | null> => {
    const period = { user_id: row.user_id, subscription_id: row.id, period_start: paid.period_start };
    if ((await orders.ofPeriod(tx, period)) !== undefined) return null;
    if (row.status === "ended") await subscriptions.update(tx, row, { end_at_provider: true });
    const payment = await orderPeriod(tx, row, paid);
    return orders.update(tx, payment, { ...mismatchColumns(billed), reference: paid.reference });
  };

  /**
   * Applies a paid period. Its tokens are granted once, even if the subscription has ended; the subscription starts or
   * renews only if it has not ended or moved on. Returns true if tokens were granted.
   */
  const begin = async (tx: Tx, row: SubscriptionRow, paid: PaidPeriod): Promise<boolean> => {
    const { plan, period_start, period_end } = paid;
    const known = await orders.ofPeriod(tx, { user_id: row.user_id, subscription_id: row.id, period_start });
    if (known !== undefined && known.status !== "mismatch") return false;
    await grantPeriod(tx, row, paid, known);
    if (!mayBegin(row, period_start)) {
      if (row.status === "ended") await subscriptions.update(tx, row, { end_at_provider: true });
      return true;
    }
    if (row.current_period_start !== null) await overage.close(tx, row);
    const renewed = await subscriptions.update(tx, row, {
      status: "active",
      plan,
      ...(row.pending_plan?.id === plan.id ? { pending_plan: null } : {}),
      anchor: row.anchor ?? period_start,
      periods: row.periods + 1,
      current_period_start: period_start,
      current_period_end: period_end,
      checkout_url: null,
      end_at_provider: false,
    });
    await overage.sync(tx, row.user_id, renewed);
    if (row.periods > 0) await notifyRenewed({ user_id: row.user_id, plan_id: plan.id, period_start, period_end }, tx);
    return true;
  };

  /** Ends a subscription now and invoices its overage. */
  const end = async (tx: Tx, row: SubscriptionRow, { notify_provider }: { notify_provider: boolean }) => {
    if (row.status === "active" || row.status === "past_due") await overage.close(tx, row);
    const ended = await subscriptions.update(tx, row, {
      status: "ended",
      checkout_url: null,
      end_at_provider: notify_provider && !isOwn(row),
    });
    await overage.sync(tx, row.user_id, undefined);
    return ended;
  };

  /** Begins the first or next period of a subscription that Purser's clock renews; the payment is simulated. */
  const beginNext = async (tx: Tx, row: SubscriptionRow): Promise<void> => {
    const plan = row.pending_plan ?? row.plan;
    const { start: period_start, end: period_end } = computePeriod(row.anchor ?? clock.now(), row.periods + 1);
    const reference = `${row.provider}:${row.id}:${period_start}`;
    const paid_cents = paidCents(row.provider, plan.price_cents);
    await begin(tx, row, { plan, period_start, period_end, reference, paid_cents });
  };

  /** Handles one period end of a subscription that Purser's clock renews: ends or renews it. */
  const advance = async (tx: Tx, row: SubscriptionRow): Promise<void> => {
    // a sandbox subscription ends when the sandbox is no longer configured
    if (row.cancel_at_period_end || context.providerOf(row.provider) === null) {
      await end(tx, row, { notify_provider: false });
      return;
    }
    await beginNext(tx, row);
  };

  /** The user's current subscription, after any period ends that are due but that the sweep has not handled yet. */
  const currentAfterDue = async (tx: Tx, user_id: string): Promise<SubscriptionRow | undefined> => {
    for (;;) {
      const row = await subscriptions.current(user_id, tx);
      if (row === undefined || !isDue(row, clock.now())) return row;
      await advance(tx, row);
    }
  };

  const advanceOne = (due: { user_id: string; id: string }) =>
    db.transaction(async (tx) => {
      await accounts.lock(tx, due.user_id);
      const row = await subscriptions.current(due.user_id, tx);
      if (row?.id === due.id && isDue(row, clock.now())) await advance(tx, row);
    });

  /** Handles period ends of all users in order of time. A failed one does not block the others. */
  const renewals: DueSource = {
    name: "renewals",
    nextDueAt: async (until) => (await subscriptions.due(until, null))?.current_period_end ?? null,
    async carryOut() {
      const { attempt, throwAny } = createSweepFailures("renewals");
      let last: DuePosition | null = null;
      for (;;) {
        const due: (DuePosition & { user_id: string }) | undefined = await subscriptions.due(clock.now(), last);
        if (due === undefined) break;
        await attempt(advanceOne(due).then(() => ledger.notifyGrant(due.user_id)));
        last = due;
      }
      throwAny();
    },
  };

  return { begin, recordMismatch, beginNext, end, currentAfterDue, renewals };
}

export type Periods = ReturnType<typeof createPeriods>;

/** An ended subscription stays ended, also if its first payment is reported later. A running one only moves forward. */
function mayBegin({ status, current_period_start }: SubscriptionRow, period_start: Instant): boolean {
  return status !== "ended" && (current_period_start === null || period_start > current_period_start);
}

const isOwn = (row: SubscriptionRow) => row.provider !== "stripe";

function isDue(row: SubscriptionRow, now: Instant): boolean {
  return row.status === "active" && isOwn(row) && row.current_period_end !== null && row.current_period_end <= now;
}
