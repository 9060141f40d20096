import { TOP_UP_MONTHS } from "../../kernel/constants.ts";
import type { Tx } from "../../platform/db/db.ts";
import { addMonths } from "../../platform/lib/clock.ts";
import type { AutoTopups } from "./auto-topup.service.ts";
import { APPLIED, type Applied, type BillingContext, type EventOf, IGNORED, lockPayment } from "./context.ts";
import { isMismatch, logMismatch, mismatchColumns, mismatchOver } from "./mismatch.ts";
import type { Overage } from "./overage.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Plan } from "./plan.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** Applies the events of a single payment: a top-up, an upgrade or an overage invoice is paid, has failed or is void. */
export function createOrderEvents(context: BillingContext, overage: Overage, auto_topups: Pick<AutoTopups, "pause">) {
  const { clock, ledger, subscriptions, orders, log } = context;

  const paid = async (tx: Tx, event: EventOf<"paid">): Promise<Applied> => {
    const payment = await lockPayment(context, tx, await orders.byId(event.payment_id, tx));
    if (payment === undefined) return IGNORED;
    if (payment.status === "succeeded") return APPLIED;
    if (payment.purpose !== "overage" && isMismatch(payment, event.billed)) {
      logMismatch(log, payment, { event, billed: event.billed });
      await orders.update(tx, payment, { ...mismatchColumns(event.billed), reference: event.reference });
      await auto_topups.pause(tx, payment, "payment_mismatch");
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
    const { provider, undoes_cancellation } = payment;
    const resumed = undoes_cancellation ? { cancel_at_period_end: false } : {};
    const taken = { plan, pending_plan: null, provider, ...resumed };
    await overage.sync(tx, row.user_id, await subscriptions.update(tx, row, taken));
  };

  const failed = async (tx: Tx, event: EventOf<"failed">): Promise<Applied> => {
    const payment = await lockPayment(context, tx, await orders.byId(event.payment_id, tx));
    if (payment?.status !== "pending") return IGNORED;
    // an unpaid overage invoice keeps its payment page
    const is_owed = payment.purpose === "overage";
    await orders.update(tx, payment, { status: "failed", send_at: null, ...(is_owed ? {} : { checkout_url: null }) });
    if (is_owed) await syncOverage(tx, payment.user_id);
    await auto_topups.pause(tx, payment, "payment_declined");
    return APPLIED;
  };

  const voided = async (tx: Tx, event: EventOf<"voided">): Promise<Applied> => {
    const payment = await lockPayment(context, tx, await orders.byId(event.payment_id, tx));
    if (payment?.purpose !== "overage") return failed(tx, { ...event, kind: "failed" });
    if (payment.status === "succeeded") return IGNORED;
    await orders.update(tx, payment, { status: "void", send_at: null, checkout_url: null });
    await syncOverage(tx, payment.user_id);
    return APPLIED;
  };

  const syncOverage = async (tx: Tx, user_id: string) =>
    overage.sync(tx, user_id, await subscriptions.current(user_id, tx));

  return { paid, failed, voided };
}
