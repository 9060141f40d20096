/** The parts of Stripe's objects that Purser reads, as the fake keeps them. Times are unix seconds, amounts cents. */

export type Metadata = Record<string, string>;

export interface Session {
  id: string;
  object: "checkout.session";
  mode: "payment" | "subscription";
  status: "open" | "complete" | "expired";
  payment_status: "unpaid" | "paid";
  url: string;
  customer: string;
  payment_intent: string | null;
  subscription: string | null;
  amount_total: number;
  currency: string;
  metadata: Metadata;
  success_url: string;
  cancel_url: string;
  /** Passed on to the objects that the session creates. */
  inner_metadata: Metadata;
}

export interface Charge {
  id: string;
  object: "charge";
  payment_intent: string;
  amount: number;
  paid: boolean;
  receipt_url: string;
}

export interface Refund {
  id: string;
  object: "refund";
  charge: string;
  payment_intent: string;
  amount: number;
  status: "succeeded" | "failed";
}

export interface Subscription {
  id: string;
  object: "subscription";
  customer: string;
  status: "active" | "past_due" | "canceled";
  cancel_at_period_end: boolean;
  /** Checkout stores the card here, not with the customer. */
  default_payment_method: string;
  metadata: Metadata;
  items: { object: "list"; data: SubscriptionItem[] };
}

export interface SubscriptionItem {
  id: string;
  current_period_start: number;
  current_period_end: number;
  price: { id: string; product: string; unit_amount: number; currency: string };
}

export interface Invoice {
  id: string;
  object: "invoice";
  customer: string;
  status: "draft" | "open" | "paid" | "void" | "uncollectible";
  total: number;
  amount_due: number;
  amount_paid: number;
  currency: string;
  metadata: Metadata;
  auto_advance: boolean;
  hosted_invoice_url: string | null;
  parent: { type: "subscription_details"; subscription_details: { subscription: string; metadata: Metadata } } | null;
  lines: { object: "list"; data: InvoiceLine[] };
  payments: { object: "list"; data: { status: "paid"; payment: { type: "payment_intent"; payment_intent: string } }[] };
}

interface InvoiceLine {
  amount: number;
  period: { start: number; end: number };
  parent: { subscription_item_details: { proration: boolean } } | null;
}

export interface Dispute {
  id: string;
  object: "dispute";
  charge: string;
  payment_intent: string;
  amount: number;
  status: "warning_needs_response" | "warning_closed" | "needs_response" | "won" | "lost";
}

export interface Customer {
  id: string;
  object: "customer";
  metadata: Metadata;
}

export type StripeObject = Session | Charge | Subscription | Invoice | Refund | Dispute | Customer;

/** `a[b][0]=c`, as Stripe's clients send it, as nested objects. */
export function parseForm(body: string): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [key, value] of new URLSearchParams(body)) {
    const path = key.replaceAll("]", "").split("[");
    let at = root;
    for (const part of path.slice(0, -1)) {
      at[part] ??= {};
      at = at[part] as Record<string, unknown>;
    }
    at[path.at(-1) ?? ""] = value;
  }
  return root;
}
