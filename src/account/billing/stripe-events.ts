import type Stripe from "stripe";
import { isUuid } from "../../platform/lib/ids.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import type { Billed, PaymentEvent } from "./payments.types.ts";

/** Purser's ids in the metadata of Stripe objects. */
export const METADATA = {
  user_id: "purser_user_id",
  payment_id: "purser_payment_id",
  subscription_id: "purser_subscription_id",
  plan_id: "purser_plan_id",
} as const;

/** The types of events that Purser handles: at most 20, the most that Stripe's list of events can be filtered by. */
export const EVENT_TYPES = [
  "checkout.session.completed",
  "checkout.session.async_payment_succeeded",
  "checkout.session.async_payment_failed",
  "checkout.session.expired",
  "invoice.paid",
  "invoice.payment_failed",
  "invoice.voided",
  "invoice.marked_uncollectible",
  "customer.subscription.deleted",
  "charge.refunded",
  "charge.refund.updated",
  "refund.failed",
  "charge.dispute.created",
  "charge.dispute.updated",
  "charge.dispute.closed",
  "charge.dispute.funds_withdrawn",
  "charge.dispute.funds_reinstated",
] as const satisfies readonly Stripe.Event["type"][];

type HandledEvent = Extract<Stripe.Event, { type: (typeof EVENT_TYPES)[number] }>;

const isHandled = (event: Stripe.Event): event is HandledEvent =>
  (EVENT_TYPES as readonly string[]).includes(event.type);

/**
 * Whether Purser's names are in the event. Sessions and invoices of other programs on the same Stripe account have none.
 * The whole text is searched, because the place in an invoice depends on the account's API version.
 */
export function mayConcernPurser(event: Stripe.Event): boolean {
  const is_named = event.type.startsWith("checkout.session.") || event.type.startsWith("invoice.");
  return !is_named || JSON.stringify(event.data.object).includes('"purser_');
}

/**
 * Translates a Stripe event; empty when it does not concern Purser. The event may be old, so its object is fetched
 * again.
 */
export async function toPaymentEvents(stripe: Stripe, event: Stripe.Event): Promise<PaymentEvent[]> {
  if (!isHandled(event)) return [];
  const base = { provider: "stripe" as const, event_id: event.id };
  switch (event.type) {
    case "checkout.session.completed":
    case "checkout.session.async_payment_succeeded":
      return sessionPaid(base, await stripe.checkout.sessions.retrieve(event.data.object.id));
    case "checkout.session.expired":
    case "checkout.session.async_payment_failed":
      return sessionExpired(base, event.data.object);
    case "invoice.paid":
      return invoicePaid(base, await stripe.invoices.retrieve(event.data.object.id ?? "", { expand: ["payments"] }));
    case "invoice.payment_failed":
      return invoiceUnpaid(stripe, base, await stripe.invoices.retrieve(event.data.object.id ?? ""));
    case "invoice.voided":
      return aboutBill(base, event.data.object, "voided");
    case "invoice.marked_uncollectible":
      return aboutBill(base, event.data.object, "failed");
    case "customer.subscription.deleted":
      return subscriptionEnded(base, event.data.object);
    case "charge.refunded":
      return [
        await refundTotals(stripe, base, {
          payment_intent: event.data.object.payment_intent,
          charge: event.data.object.id,
        }),
      ];
    case "charge.refund.updated":
    case "refund.failed":
      return [await refundTotals(stripe, base, event.data.object)];
    case "charge.dispute.created":
    case "charge.dispute.updated":
    case "charge.dispute.funds_withdrawn":
    case "charge.dispute.funds_reinstated":
    case "charge.dispute.closed":
      return disputed(base, await stripe.disputes.retrieve(event.data.object.id));
  }
}

/** The payment intent of a paid invoice. Falls back to its charge, then (nothing was due) to the invoice itself. */
export function moneyReference(invoice: Stripe.Invoice): string {
  const payment = invoice.payments?.data.find((each) => each.status === "paid")?.payment;
  return getId(payment?.payment_intent) ?? getId(payment?.charge) ?? invoice.id ?? "";
}

/**
 * The amount of an invoice before the customer's credit is subtracted. Servers that imitate Stripe may leave out `total`.
 */
export function billedBy(invoice: Pick<Stripe.Invoice, "amount_due" | "currency"> & { total?: number }): Billed {
  return { amount_cents: invoice.total ?? invoice.amount_due, currency: invoice.currency };
}

/** The largest page that Stripe lists. */
const PAGE = 100;

interface Base {
  provider: "stripe";
  event_id: string;
}

type Expandable = string | { id: string } | null | undefined;

function getId(object: Expandable): string | null {
  return typeof object === "string" ? object : (object?.id ?? null);
}

function customerOf(object: { customer: string | { id: string } | null }): { customer_reference?: string } {
  const customer_reference = getId(object.customer);
  return customer_reference === null ? {} : { customer_reference };
}

/** Purser's id in an object's metadata. Another program on the same Stripe account may use the same name. */
function idIn(metadata: Stripe.Metadata | null | undefined, name: string): string | undefined {
  const id = metadata?.[name];
  return id !== undefined && isUuid(id) ? id : undefined;
}

function sessionPaid(base: Base, session: Stripe.Checkout.Session): PaymentEvent[] {
  const payment_id = idIn(session.metadata, METADATA.payment_id);
  if (session.mode !== "payment" || session.payment_status !== "paid" || payment_id === undefined) return [];
  const reference = getId(session.payment_intent) ?? session.id;
  const amount_cents = session.amount_total ?? 0;
  const billed = { amount_cents, currency: session.currency ?? "none" };
  return [{ ...base, ...customerOf(session), kind: "paid", payment_id, reference, amount_cents, billed }];
}

function sessionExpired(base: Base, session: Stripe.Checkout.Session): PaymentEvent[] {
  const payment_id = idIn(session.metadata, METADATA.payment_id);
  const subscription_id = idIn(session.metadata, METADATA.subscription_id);
  if (payment_id !== undefined) return [{ ...base, kind: "failed", payment_id }];
  if (subscription_id !== undefined)
    return [{ ...base, kind: "subscription_ended", subscription_id, subscription_reference: null }];
  return [];
}

function invoicePaid(base: Base, invoice: Stripe.Invoice): PaymentEvent[] {
  const paid = {
    ...base,
    ...customerOf(invoice),
    reference: moneyReference(invoice),
    amount_cents: invoice.amount_paid,
    billed: billedBy(invoice),
  };
  const payment_id = idIn(invoice.metadata, METADATA.payment_id);
  if (payment_id !== undefined) return [{ ...paid, kind: "paid", payment_id }];
  const subscription = toSubscription(invoice);
  const period = computePeriod(invoice);
  if (subscription === null || period === null) return [];
  return [{ ...paid, ...subscription, kind: "period_paid", ...period }];
}

async function invoiceUnpaid(stripe: Stripe, base: Base, invoice: Stripe.Invoice): Promise<PaymentEvent[]> {
  if (invoice.status !== "open") return [];
  const bill = aboutBill(base, invoice, "failed");
  // an upgrade is not owed, so void its invoice before Stripe collects it later
  if (bill.length > 0 && !invoice.auto_advance) await stripe.invoices.voidInvoice(invoice.id ?? "");
  if (bill.length > 0) return bill;
  const subscription = toSubscription(invoice);
  const period = computePeriod(invoice);
  if (subscription === null || period === null) return [];
  const { subscription_id, subscription_reference } = subscription;
  const { period_start } = period;
  return [{ ...base, kind: "subscription_past_due", subscription_id, subscription_reference, period_start }];
}

/** Events for an invoice that Purser created: an upgrade or overage. */
function aboutBill(base: Base, invoice: Stripe.Invoice, kind: "failed" | "voided"): PaymentEvent[] {
  const payment_id = idIn(invoice.metadata, METADATA.payment_id);
  return payment_id === undefined ? [] : [{ ...base, kind, payment_id }];
}

/** The period that an invoice of a subscription is for. */
function computePeriod(invoice: Stripe.Invoice) {
  const line = invoice.lines.data.find((each) => each.parent?.subscription_item_details?.proration === false);
  if (line === undefined) return null;
  return { period_start: instantOf(line.period.start * 1000), period_end: instantOf(line.period.end * 1000) };
}

/** The subscription of an invoice, with the metadata at the time of the invoice: its plan is the paid one. */
function toSubscription(invoice: Stripe.Invoice) {
  const details = invoice.parent?.subscription_details;
  const subscription_reference = getId(details?.subscription);
  const subscription_id = idIn(details?.metadata, METADATA.subscription_id);
  const plan_id = details?.metadata?.[METADATA.plan_id];
  if (subscription_reference === null || subscription_id === undefined || plan_id === undefined) return null;
  return { subscription_id, subscription_reference, plan_id };
}

function subscriptionEnded(base: Base, subscription: Stripe.Subscription): PaymentEvent[] {
  const subscription_id = idIn(subscription.metadata, METADATA.subscription_id);
  if (subscription_id === undefined) return [];
  return [{ ...base, kind: "subscription_ended", subscription_id, subscription_reference: subscription.id }];
}

/** Lists all refunds again, because a charge does not show which refunds failed later. */
export async function refundTotals(
  stripe: Stripe,
  base: Base,
  money: { payment_intent: Expandable; charge: Expandable },
): Promise<PaymentEvent> {
  const [payment_intent, charge] = [getId(money.payment_intent), getId(money.charge)];
  const of = payment_intent === null ? { charge: charge ?? "" } : { payment_intent };
  const sums = { refunded_cents: 0, refund_failed_cents: 0 };
  for await (const { amount, status } of stripe.refunds.list({ ...of, limit: PAGE })) {
    sums.refunded_cents += amount;
    if (status === "failed" || status === "canceled") sums.refund_failed_cents += amount;
  }
  return { ...base, kind: "refunded", reference: payment_intent ?? charge ?? "", ...sums };
}

/**
 * Uses the dispute's state, not the event's name. An inquiry (`warning_…`) moves no money unless it becomes a dispute.
 */
function disputed(base: Base, dispute: Stripe.Dispute): PaymentEvent[] {
  const reference = getId(dispute.payment_intent) ?? getId(dispute.charge) ?? "";
  const about = { ...base, reference, dispute_reference: dispute.id, disputed_cents: dispute.amount };
  switch (dispute.status) {
    case "needs_response":
    case "under_review":
      return [{ ...about, kind: "disputed" }];
    case "lost":
      return [{ ...about, kind: "dispute_closed", won: false }];
    case "won":
    case "prevented":
      return [{ ...about, kind: "dispute_closed", won: true }];
    default:
      return [];
  }
}
