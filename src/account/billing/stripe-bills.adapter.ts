import Stripe from "stripe";
import type { PaymentEvent } from "./payments.types.ts";
import { billedBy, METADATA, moneyReference } from "./stripe-events.ts";

/** One amount that Purser charges, as a Stripe invoice with one line. */
export interface Bill {
  payment_id: string;
  customer: string;
  amount_cents: number;
  currency: string;
  description: string;
  /** The subscription that supplies the payment method; null uses the one that the customer saved. */
  subscription_reference: string | null;
  /** true: a declined invoice stays open and Stripe collects it later. false: a declined invoice becomes void. */
  owed: boolean;
}

/** The result of a bill. An `open` invoice that is not declined is still being paid. */
export interface CollectedBill {
  invoice: Stripe.Invoice;
  declined: boolean;
}

/** The largest page that Stripe lists. */
const PAGE = 100;

/**
 * Creates and collects the invoice, and resumes an earlier attempt. Stripe forgets idempotency keys after a day, so
 * this looks for the invoice first and takes each step only in the state before it.
 */
export async function collectBill(stripe: Stripe, bill: Bill): Promise<CollectedBill> {
  let invoice = (await begunInvoice(stripe, bill)) ?? (await draftInvoice(stripe, bill));
  if (invoice.status === "draft") {
    if (invoice.lines.data.length === 0) await addLine(stripe, bill, invoice.id);
    // Stripe may advance it only once it is complete, because an empty invoice counts as paid
    const whole = { auto_advance: bill.owed, expand: ["payments"] };
    invoice = await stripe.invoices.finalizeInvoice(invoice.id, whole, getKey(bill, "finalize"));
  }
  // an amount below Stripe's minimum is not paid now; Stripe adds it to the customer's balance
  return invoice.status === "open" ? pay(stripe, bill, invoice.id) : { invoice, declined: false };
}

/**
 * Makes sure that a bill is not collected any more, and returns its certain events; none while it is being paid. Without a
 * customer there is no saved card, so no bill was paid.
 */
export async function withdrawBill(
  stripe: Stripe,
  { payment_id, customer }: { payment_id: string; customer: string | null },
): Promise<PaymentEvent[]> {
  let invoice = customer === null ? null : await begunInvoice(stripe, { payment_id, customer });
  if (invoice?.status === "draft") {
    await stripe.invoices.del(invoice.id);
    invoice = null;
  }
  if (invoice === null) return [{ provider: "stripe", event_id: `voided:${payment_id}`, kind: "voided", payment_id }];
  const is_open = invoice.status === "open" || invoice.status === "uncollectible";
  if (is_open) invoice = await voidUnlessPaying(stripe, invoice.id);
  return billEvents(payment_id, { invoice, declined: false });
}

/** The invoice after the attempt to void it. Stripe rejects that for an invoice that is paid or that is being paid. */
async function voidUnlessPaying(stripe: Stripe, id: string): Promise<Stripe.Invoice> {
  try {
    return await stripe.invoices.voidInvoice(id);
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw error;
    return stripe.invoices.retrieve(id, { expand: ["payments"] });
  }
}

/** The events that are certain from a bill's invoice. */
export function billEvents(payment_id: string, { invoice, declined }: CollectedBill): PaymentEvent[] {
  const about = (what: string) => ({ provider: "stripe" as const, event_id: `${what}:${payment_id}`, payment_id });
  if (invoice.status === "paid") {
    const money = { reference: moneyReference(invoice), amount_cents: invoice.amount_paid, billed: billedBy(invoice) };
    return [{ ...about("paid"), kind: "paid", ...money }];
  }
  if (invoice.status === "void") return [{ ...about("voided"), kind: "voided" }];
  return declined || invoice.status === "uncollectible" ? [{ ...about("refused"), kind: "failed" }] : [];
}

const getKey = ({ payment_id }: Bill, step: string) => ({ idempotencyKey: `${payment_id}:${step}` });

async function begunInvoice(
  stripe: Stripe,
  { customer, payment_id }: Pick<Bill, "customer" | "payment_id">,
): Promise<Stripe.Invoice | null> {
  for await (const invoice of stripe.invoices.list({ customer, limit: PAGE })) {
    if (invoice.metadata?.[METADATA.payment_id] === payment_id) {
      return stripe.invoices.retrieve(invoice.id, { expand: ["payments"] });
    }
  }
  return null;
}

function draftInvoice(stripe: Stripe, bill: Bill): Promise<Stripe.Invoice> {
  const { customer, currency, payment_id } = bill;
  const metadata = { [METADATA.payment_id]: payment_id };
  return stripe.invoices.create(
    { customer, currency, metadata, pending_invoice_items_behavior: "exclude" as const, auto_advance: false },
    getKey(bill, "invoice"),
  );
}

function addLine(stripe: Stripe, bill: Bill, invoice: string) {
  const { customer, amount_cents: amount, currency, description } = bill;
  return stripe.invoiceItems.create({ customer, invoice, amount, currency, description }, getKey(bill, "item"));
}

async function pay(stripe: Stripe, bill: Bill, id: string): Promise<CollectedBill> {
  const payment_method = await getPaymentMethod(stripe, bill);
  const method_params = { expand: ["payments"], ...(payment_method === null ? {} : { payment_method }) };
  try {
    // each card has its own key; Stripe still pays an invoice only once
    const key = getKey(bill, `pay:${payment_method ?? "default"}`);
    return { invoice: await stripe.invoices.pay(id, method_params, key), declined: false };
  } catch (error) {
    if (!isDeclined(error)) throw error;
    const invoice = await stripe.invoices.retrieve(id, { expand: ["payments"] });
    if (!bill.owed && invoice.status === "open") await stripe.invoices.voidInvoice(id, {}, getKey(bill, "void"));
    return { invoice, declined: invoice.status !== "paid" };
  }
}

/**
 * The subscription's payment method, or without a subscription the newest that the customer saved. Checkout makes neither
 * the customer's default.
 */
async function getPaymentMethod(stripe: Stripe, bill: Bill): Promise<string | null> {
  const { subscription_reference: reference, customer } = bill;
  if (reference === null)
    return (await stripe.customers.listPaymentMethods(customer, { limit: 1 })).data[0]?.id ?? null;
  const { default_payment_method: method } = await stripe.subscriptions.retrieve(reference);
  return typeof method === "string" ? method : (method?.id ?? null);
}

/** The card was declined, or none is stored. */
function isDeclined(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeCardError || error instanceof Stripe.errors.StripeInvalidRequestError;
}
