import type { Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { APPLIED, type Applied, type BillingContext, type EventOf, IGNORED } from "./context.ts";
import { isMismatch, logMismatch } from "./mismatch.ts";
import type { Overage } from "./overage.service.ts";
import type { Periods } from "./periods.service.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** Applies the events of a subscription: a period is paid or overdue, or the subscription has ended. */
export function createSubscriptionEvents(context: BillingContext, periods: Periods, overage: Overage) {
  const { accounts, subscriptions, log } = context;

  const periodPaid = async (tx: Tx, event: EventOf<"period_paid">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined) return IGNORED;
    const known = [row.plan, row.pending_plan, ...context.plans()].find((each) => each?.id === event.plan_id);
    // a plan that the configuration no longer has: a bill of another price than the present plan's is a mismatch
    const plan = known ?? row.plan;
    const { period_start, period_end, reference, amount_cents: paid_cents, billed } = event;
    const named = await subscriptions.update(tx, row, { reference: event.subscription_reference });
    const period = { plan, period_start, period_end, reference, paid_cents };
    const ordered = { amount_cents: plan.price_cents, currency: plan.currency };
    if (isMismatch(ordered, billed)) {
      const recorded = await periods.recordMismatch(tx, named, { ...period, billed });
      if (recorded !== null) logMismatch(log, recorded, { event, billed });
      await markPastDue(tx, named, period_start);
      return APPLIED;
    }
    const granted = await periods.begin(tx, named, period);
    return granted ? { outcome: "applied", granted: row.user_id } : APPLIED;
  };

  const pastDue = async (tx: Tx, event: EventOf<"subscription_past_due">): Promise<Applied> => {
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

  const ended = async (tx: Tx, event: EventOf<"subscription_ended">): Promise<Applied> => {
    const row = await lockSubscription(tx, event.subscription_id);
    if (row === undefined || row.status === "ended") return IGNORED;
    // an expired checkout does not affect a running subscription
    if (event.subscription_reference === null && row.status !== "incomplete") return IGNORED;
    await periods.end(tx, row, { notify_provider: false });
    return APPLIED;
  };

  const lockSubscription = async (tx: Tx, id: string): Promise<SubscriptionRow | undefined> => {
    const row = await subscriptions.byId(id, tx);
    if (row === undefined) return undefined;
    await accounts.lock(tx, row.user_id);
    return subscriptions.byId(id, tx);
  };

  return { periodPaid, pastDue, ended };
}
