import Stripe from "stripe";
import { errors } from "../errors.ts";
import type {
  OverageOrder,
  Payer,
  PaymentEvent,
  Payments,
  PlanChangeOrder,
  ReturnUrls,
  RunningSubscription,
  Started,
  SubscriptionOrder,
  TopUpOrder,
} from "./payments.types.ts";
import type { Plan } from "./plan.ts";
import { METADATA, moneyReference, paymentEventsOf } from "./stripe-events.ts";

const TIMEOUT_MS = 20_000;
/** The SDK's own retries; each carries the idempotency key, so that none charges twice. */
const RETRIES = 2;

export interface StripeSettings {
  secret_key: string;
  webhook_secret: string;
  /** null: Stripe itself. */
  api_base: string | null;
  /** Where checkout pages lead back to when the caller names no address. */
  public_url: string;
}

/** Stripe as a provider, with the door its webhooks come in by. */
export interface StripePayments extends Payments {
  /** What a delivery tells, each object fetched anew so that old or reordered news does no harm. 400 when the signature is not Stripe's. */
  eventsOf(raw_body: string, signature: string | undefined): Promise<PaymentEvent[]>;
}

interface Bill extends OverageOrder {
  owed: boolean;
}

/** Money through Stripe: hosted Checkout for top-ups and subscriptions, invoices for differences and overage. */
export function createStripePayments(settings: StripeSettings): StripePayments {
  const stripe = new Stripe(settings.secret_key, {
    ...addressOf(settings.api_base),
    timeout: TIMEOUT_MS,
    maxNetworkRetries: RETRIES,
    telemetry: false,
  });
  const orders = createOrders(stripe, settings);

  return {
    provider: "stripe",
    runs_periods: true,
    ...orders,
    async eventsOf(raw_body, signature) {
      const event = verified(stripe, settings.webhook_secret, raw_body, signature);
      return called(() => paymentEventsOf(stripe, event));
    },
  };
}

function createOrders(stripe: Stripe, settings: StripeSettings) {
  const customerOf = async ({ user_id, email, customer_reference }: Payer): Promise<string> => {
    if (customer_reference !== null) return customer_reference;
    const params = { metadata: { [METADATA.user_id]: user_id }, ...(email === null ? {} : { email }) };
    return (await stripe.customers.create(params, { idempotencyKey: `customer:${user_id}` })).id;
  };
  const checkout = async (
    params: Stripe.Checkout.SessionCreateParams,
    order: { id: string; payer: Payer } & ReturnUrls,
  ): Promise<Started> => {
    const customer = await customerOf(order.payer);
    const urls = {
      success_url: order.success_url ?? `${settings.public_url}/?checkout=success`,
      cancel_url: order.cancel_url ?? `${settings.public_url}/?checkout=cancelled`,
    };
    const session = await stripe.checkout.sessions.create(
      { ...params, ...urls, customer, client_reference_id: order.id },
      { idempotencyKey: order.id },
    );
    return { checkout_url: session.url, customer_reference: customer, reference: session.id, events: [] };
  };

  /**
   * An invoice of one line, collected at once. Refused, it stays open for Stripe to collect later when it is `owed`, and
   * is void otherwise: what was refused is not charged for after all.
   */
  const invoice = async (bill: Bill) => {
    const { payment_id, amount_cents, currency, description, owed } = bill;
    const customer = await customerOf(bill.payer);
    const key = (step: string) => ({ idempotencyKey: `${payment_id}:${step}` });
    const draft = await stripe.invoices.create(
      {
        customer,
        currency,
        pending_invoice_items_behavior: "exclude",
        auto_advance: owed,
        metadata: { [METADATA.payment_id]: payment_id },
      },
      key("invoice"),
    );
    await stripe.invoiceItems.create(
      { customer, invoice: draft.id, amount: amount_cents, currency, description },
      key("item"),
    );
    const open = await stripe.invoices.finalizeInvoice(draft.id, { expand: ["payments"] }, key("finalize"));
    // below Stripe's least charge there is nothing to pay now: it goes on the customer's balance
    return { customer, paid: open.status === "paid" ? open : await collect(open.id, bill, key) };
  };

  const collect = async (id: string, bill: Bill, key: (step: string) => Stripe.RequestOptions) => {
    const payment_method = await paymentMethodOf(stripe, bill.subscription_reference);
    const pay = { expand: ["payments"], ...(payment_method === null ? {} : { payment_method }) };
    try {
      // another card is another attempt; the invoice itself is paid once
      return await stripe.invoices.pay(id, pay, key(`pay:${payment_method ?? "default"}`));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const left = await stripe.invoices.retrieve(id, { expand: ["payments"] });
      if (left.status === "paid") return left;
      if (!bill.owed && left.status === "open") await stripe.invoices.voidInvoice(id, {}, key("void"));
      throw errors.paymentFailed();
    }
  };
  const paidEvent = (payment_id: string, paid: Stripe.Invoice): PaymentEvent[] =>
    paid.status === "paid"
      ? [
          {
            provider: "stripe",
            event_id: `paid:${payment_id}`,
            kind: "paid",
            payment_id,
            reference: moneyReference(paid),
            amount_cents: paid.amount_paid,
          },
        ]
      : [];

  return {
    topUp: (order: TopUpOrder) =>
      called(() => {
        const metadata = { [METADATA.payment_id]: order.payment_id };
        const line = priceLine(order, `${order.tokens.toLocaleString("en-US")} tokens`);
        return checkout(
          { mode: "payment", line_items: [line], metadata, payment_intent_data: { metadata } },
          { ...order, id: order.payment_id },
        );
      }),
    subscribe: (order: SubscriptionOrder) =>
      called(() => {
        const metadata = subscriptionMetadata(order.subscription_id, order.plan);
        const line = priceLine(
          { amount_cents: order.plan.price_cents, currency: order.plan.currency },
          order.plan.name,
          "month",
        );
        return checkout(
          { mode: "subscription", line_items: [line], metadata, subscription_data: { metadata } },
          { ...order, id: order.subscription_id },
        );
      }),
    changePlan: (order: PlanChangeOrder) =>
      called(async (): Promise<Started> => {
        const reference = order.subscription_reference;
        const nothing: Started = {
          checkout_url: null,
          customer_reference: order.payer.customer_reference,
          reference,
          events: [],
        };
        let events: PaymentEvent[] = [];
        if (order.when === "now" && order.amount_cents > 0) {
          const { payment_id, payer, amount_cents, plan } = order;
          const bill = {
            payment_id,
            payer,
            amount_cents,
            currency: plan.currency,
            description: `Change to ${plan.name}`,
            subscription_reference: reference,
            owed: false,
          };
          events = paidEvent(payment_id, (await invoice(bill)).paid);
        }
        if (reference !== null) await switchPrice(stripe, reference, order);
        return { ...nothing, events };
      }),
    setCancelAtPeriodEnd: ({ subscription_reference, cancel }: RunningSubscription & { cancel: boolean }) =>
      called(async () => {
        if (subscription_reference !== null)
          await stripe.subscriptions.update(subscription_reference, { cancel_at_period_end: cancel });
      }),
    endSubscription: (order: RunningSubscription & { checkout_reference: string | null }) =>
      called(async () => {
        const { subscription_reference, checkout_reference } = order;
        if (subscription_reference !== null) await ifThere(stripe.subscriptions.cancel(subscription_reference));
        if (checkout_reference !== null) await ifThere(stripe.checkout.sessions.expire(checkout_reference));
      }),
    chargeOverage: (order: OverageOrder) =>
      called(async (): Promise<Started> => {
        const { customer, paid } = await invoice({ ...order, owed: true });
        return {
          checkout_url: null,
          customer_reference: customer,
          reference: paid.id,
          events: paidEvent(order.payment_id, paid),
        };
      }),
  };
}

/** The subscription at its new price from the next period on; what this period costs is not touched. */
async function switchPrice(
  stripe: Stripe,
  reference: string,
  { subscription_id, plan }: PlanChangeOrder,
): Promise<void> {
  const subscription = await stripe.subscriptions.retrieve(reference);
  if (subscription.status === "canceled") return;
  const [item] = subscription.items.data;
  if (item === undefined) throw new Error("a Stripe subscription without an item");
  const product = typeof item.price.product === "string" ? item.price.product : item.price.product.id;
  await stripe.subscriptions.update(reference, {
    proration_behavior: "none",
    metadata: subscriptionMetadata(subscription_id, plan),
    items: [
      {
        id: item.id,
        price_data: {
          currency: plan.currency,
          product,
          unit_amount: plan.price_cents,
          recurring: { interval: "month" },
        },
      },
    ],
  });
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

function subscriptionMetadata(subscription_id: string, plan: Plan): Record<string, string> {
  return { [METADATA.subscription_id]: subscription_id, [METADATA.plan_id]: plan.id };
}

function priceLine(
  { amount_cents, currency }: { amount_cents: number; currency: string },
  name: string,
  interval?: "month",
) {
  const recurring = interval === undefined ? {} : { recurring: { interval } };
  return { quantity: 1, price_data: { currency, unit_amount: amount_cents, product_data: { name }, ...recurring } };
}

function addressOf(api_base: string | null): Pick<Stripe.StripeConfig, "host" | "port" | "protocol"> {
  if (api_base === null) return {};
  const { hostname, port, protocol } = new URL(api_base);
  const scheme = protocol === "http:" ? "http" : "https";
  return { host: hostname, port: port === "" ? (scheme === "http" ? 80 : 443) : Number(port), protocol: scheme };
}

function verified(stripe: Stripe, secret: string, raw_body: string, signature: string | undefined): Stripe.Event {
  try {
    return stripe.webhooks.constructEvent(raw_body, signature ?? "", secret);
  } catch {
    throw errors.invalidValue(
      "Stripe-Signature",
      "The signature is not Stripe's, or older than five minutes. Check STRIPE_WEBHOOK_SECRET.",
    );
  }
}

/** A call whose object may be over or gone already: that is what was wanted. */
async function ifThere(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw error;
  }
}

/** Stripe's failures as ours, without a word of theirs: they may quote what was sent. */
async function called<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof Stripe.errors.StripeCardError) throw errors.paymentFailed();
    if (error instanceof Stripe.errors.StripeError) {
      throw errors.upstream(
        "The payment provider did not take the order. Nothing was charged; retry.",
        new Error(`stripe: ${error.type} ${error.code ?? ""}`),
      );
    }
    throw error;
  }
}
