import Stripe from "stripe";
import type { PaymentEvent } from "./payments.types.ts";
import { billedBy, METADATA, moneyReference } from "./stripe-events.ts";

/** One amount that Purser itself asks for, as a Stripe invoice of one line. */
export interface Bill {
  payment_id: string;
  customer: string;
  amount_cents: number;
  currency: string;
  description: string;
  /** The subscription whose means it is paid by; null: the customer's own. */
  subscription_reference: string | null;
  /** Refused, it stays open for Stripe to collect later; what is not owed is void then, and not charged for after all. */
  owed: boolean;
}

/** What became of a bill: `open` and not refused is money that is on its way. */
export interface CollectedBill {
  invoice: Stripe.Invoice;
  refused: boolean;
}

/** The most that Stripe lists at once. */
const PAGE = 100;

/**
 * Makes the invoice and collects it, going on from wherever an earlier attempt has come to. Stripe forgets idempotency
 * keys after a day, so that the invoice is looked for first, and each step taken only in the state before it.
 */
export async function collectBill(stripe: Stripe, bill: Bill): Promise<CollectedBill> {
  let invoice = (await begunInvoice(stripe, bill)) ?? (await draftInvoice(stripe, bill));
  if (invoice.status === "draft") {
    if (invoice.lines.data.length === 0) await addLine(stripe, bill, invoice.id);
    // not before it is whole does it advance by itself: an empty one would count as paid
    const whole = { auto_advance: bill.owed, expand: ["payments"] };
    invoice = await stripe.invoices.finalizeInvoice(invoice.id, whole, keyOf(bill, "finalize"));
  }
  // below Stripe's least charge there is nothing to pay now: it goes on the customer's balance
  return invoice.status === "open" ? pay(stripe, bill, invoice.id) : { invoice, refused: false };
}

/** What a bill's invoice says for certain. */
export function billEvents(payment_id: string, { invoice, refused }: CollectedBill): PaymentEvent[] {
  const about = (what: string) => ({ provider: "stripe" as const, event_id: `${what}:${payment_id}`, payment_id });
  if (invoice.status === "paid") {
    const money = { reference: moneyReference(invoice), amount_cents: invoice.amount_paid, billed: billedBy(invoice) };
    return [{ ...about("paid"), kind: "paid", ...money }];
  }
  if (invoice.status === "void") return [{ ...about("voided"), kind: "voided" }];
  return refused || invoice.status === "uncollectible" ? [{ ...about("refused"), kind: "failed" }] : [];
}

const keyOf = ({ payment_id }: Bill, step: string) => ({ idempotencyKey: `${payment_id}:${step}` });

async function begunInvoice(stripe: Stripe, { customer, payment_id }: Bill): Promise<Stripe.Invoice | null> {
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
  const alone = { pending_invoice_items_behavior: "exclude" as const, auto_advance: false };
  return stripe.invoices.create({ customer, currency, metadata, ...alone }, keyOf(bill, "invoice"));
}

function addLine(stripe: Stripe, bill: Bill, invoice: string) {
  const { customer, amount_cents: amount, currency, description } = bill;
  return stripe.invoiceItems.create({ customer, invoice, amount, currency, description }, keyOf(bill, "item"));
}

async function pay(stripe: Stripe, bill: Bill, id: string): Promise<CollectedBill> {
  const payment_method = await paymentMethodOf(stripe, bill.subscription_reference);
  const means = { expand: ["payments"], ...(payment_method === null ? {} : { payment_method }) };
  try {
    // another card is another attempt; the invoice itself is paid once
    const key = keyOf(bill, `pay:${payment_method ?? "default"}`);
    return { invoice: await stripe.invoices.pay(id, means, key), refused: false };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const invoice = await stripe.invoices.retrieve(id, { expand: ["payments"] });
    if (!bill.owed && invoice.status === "open") await stripe.invoices.voidInvoice(id, {}, keyOf(bill, "void"));
    return { invoice, refused: invoice.status !== "paid" };
  }
}

/** What the subscription is paid with: Checkout keeps it there, and not with the customer. */
async function paymentMethodOf(stripe: Stripe, reference: string | null): Promise<string | null> {
  if (reference === null) return null;
  const { default_payment_method: method } = await stripe.subscriptions.retrieve(reference);
  return typeof method === "string" ? method : (method?.id ?? null);
}

/** The card was declined, or there is none. */
function isRefusal(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeCardError || error instanceof Stripe.errors.StripeInvalidRequestError;
}
