import Stripe from "stripe";
import { errors } from "../../kernel/errors.ts";
import { type Instant, instantOf } from "../../platform/lib/instant.ts";
import { billingErrors } from "./errors.ts";
import type {
  BillOrder,
  EventList,
  ListedEvent,
  Payer,
  PaymentEvent,
  PaymentProvider,
  PlanChangeOrder,
  RefundOrder,
  ReturnUrls,
  RunningSubscription,
  Started,
  SubscriptionOrder,
  TopUpOrder,
} from "./payments.types.ts";
import type { Plan } from "./plan.ts";
import { billEvents, collectBill, withdrawBill } from "./stripe-bills.adapter.ts";
import { EVENT_TYPES, METADATA, mayConcernPurser, refundTotals, toPaymentEvents } from "./stripe-events.ts";

const TIMEOUT_MS = 20_000;
/** Retries by the SDK. Each sends the same idempotency key, so it cannot charge twice. */
const RETRIES = 2;

/** The attempts of one payment that are searched for the paid one. */
const CHARGES = 10;

/** State of the money when Stripe rejected an order or did not answer. */
const NO_PAGE = "The payment provider did not open a checkout page. Nothing was charged; retry.";
const STAYS_OPEN =
  "The payment provider has not confirmed the payment yet. The order stays open, is retried automatically and is charged " +
  "at most once. Check the subscription before you order again.";
const NOT_CHANGED = "The payment provider did not confirm the change. Nothing was charged for it; retry.";
const NOT_REFUNDED =
  "The payment provider did not confirm the refund. Retry: the money is returned once. If it stays, look at the provider.";
const NOT_LISTED = "The payment provider did not list its events. They are read again later.";
const NO_RECEIPT = "The payment provider did not show the receipt. Retry.";
const NOT_ASKED = "The payment provider did not answer a query about this event. Deliver the event again.";

export interface StripeSettings {
  secret_key: string;
  webhook_secret: string;
  /** null uses Stripe's own address. */
  api_base: string | null;
  /** The default address that checkout pages return to. */
  public_url: string;
}

/** Stripe as a payment provider, with its webhook parser. */
export interface StripePayments extends PaymentProvider {
  /**
   * The events of a webhook delivery. Each object is fetched again, so old or reordered deliveries do no harm. Throws
   * 400 when the signature is not Stripe's.
   */
  eventsOf(raw_body: string, signature: string | undefined): Promise<PaymentEvent[]>;
}

/** Payments through Stripe: hosted Checkout for top-ups and subscriptions, invoices for upgrades and overage. */
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
    event_list: createEventList(stripe),
    async check() {
      try {
        await stripe.events.list({ types: [...EVENT_TYPES], limit: 1 });
        return null;
      } catch (error) {
        if (!(error instanceof Stripe.errors.StripeError)) throw error;
        return explainFailure(error);
      }
    },
    async eventsOf(raw_body, signature) {
      const event = verified(stripe, settings.webhook_secret, raw_body, signature);
      return mapStripeErrors(NOT_ASKED, () => toPaymentEvents(stripe, event));
    },
  };
}

/** Stripe masks the key in its messages. */
function explainFailure({ message, type }: InstanceType<typeof Stripe.errors.StripeError>): string {
  const advice =
    type === "StripeConnectionError" ? "Check that this machine may reach Stripe." : "Check STRIPE_SECRET_KEY.";
  return `Stripe says: ${message.replace(/\.?$/, ".")} ${advice}`;
}

/** Stripe's list of events, which has every event of the last 30 days. */
function createEventList(stripe: Stripe): EventList {
  const toSeconds = (instant: Instant) => Math.floor(Date.parse(instant) / 1000);
  const listed = (event: Stripe.Event): ListedEvent => ({
    event_id: event.id,
    created_at: instantOf(event.created * 1000),
    paymentEvents: async () => {
      if (!mayConcernPurser(event)) return [];
      return mapStripeErrors(NOT_ASKED, () => nullIfMissing(toPaymentEvents(stripe, event)));
    },
  });
  return {
    kept_days: 30,
    page: ({ from, to, after, limit }) =>
      mapStripeErrors(NOT_LISTED, async () => {
        const created = { gte: toSeconds(from), lte: toSeconds(to) };
        const after_event = after === null ? {} : { starting_after: after };
        const { data, has_more, lastResponse } = await stripe.events.list({
          types: [...EVENT_TYPES],
          created,
          limit,
          ...after_event,
        });
        const date_ms = Date.parse(lastResponse.headers.date ?? "");
        return { events: data.map(listed), has_more, listed_at: Number.isNaN(date_ms) ? null : instantOf(date_ms) };
      }),
  };
}

function createOrders(stripe: Stripe, settings: StripeSettings) {
  const findCustomer = async ({ user_id, email, customer_reference }: Payer): Promise<string> => {
    if (customer_reference !== null) return customer_reference;
    const params = { metadata: { [METADATA.user_id]: user_id }, ...(email === null ? {} : { email }) };
    return (await stripe.customers.create(params, { idempotencyKey: `customer:${user_id}` })).id;
  };
  const checkout = async (
    params: Stripe.Checkout.SessionCreateParams,
    order: { id: string; payer: Payer } & ReturnUrls,
  ): Promise<Started> => {
    const customer = await findCustomer(order.payer);
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

  return {
    topUp: (order: TopUpOrder) =>
      mapStripeErrors(NO_PAGE, () => {
        const metadata = { [METADATA.payment_id]: order.payment_id };
        const saving = order.save_method ? { setup_future_usage: "off_session" as const } : {};
        const line = priceLine(order, `${order.tokens.toLocaleString("en-US")} tokens`);
        return checkout(
          { mode: "payment", line_items: [line], metadata, payment_intent_data: { metadata, ...saving } },
          { ...order, id: order.payment_id },
        );
      }),
    subscribe: (order: SubscriptionOrder) =>
      mapStripeErrors(NO_PAGE, () => {
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
      order.when === "now"
        ? mapStripeErrors(STAYS_OPEN, () => chargeDifference(order))
        : mapStripeErrors(NOT_CHANGED, async () => {
            if (order.subscription_reference !== null) await switchPrice(stripe, order.subscription_reference, order);
            return startedWith(order.payer.customer_reference, order.subscription_reference);
          }),
    receiptUrl: (reference: string) =>
      mapStripeErrors(NO_RECEIPT, async () => {
        if (reference.startsWith("ch_")) return (await stripe.charges.retrieve(reference)).receipt_url;
        const { data } = await stripe.charges.list({ payment_intent: reference, limit: CHARGES });
        return data.find(({ paid }) => paid)?.receipt_url ?? null;
      }),
    refund: ({ payment_id, reference, amount_cents, refunded_cents }: RefundOrder) =>
      mapStripeErrors(NOT_REFUNDED, async () => {
        const of = reference.startsWith("ch_") ? { charge: reference } : { payment_intent: reference };
        const refund = await stripe.refunds.create(
          { ...of, amount: amount_cents, metadata: { [METADATA.payment_id]: payment_id } },
          { idempotencyKey: `refund:${payment_id}:${refunded_cents}` },
        );
        const event_id = `refund:${refund.id}`;
        return refundTotals(stripe, { provider: "stripe", event_id }, { payment_intent: null, charge: null, ...of });
      }),
    setCancelAtPeriodEnd: ({ subscription_reference, cancel }: RunningSubscription & { cancel: boolean }) =>
      mapStripeErrors(NOT_CHANGED, async () => {
        if (subscription_reference !== null)
          await stripe.subscriptions.update(subscription_reference, { cancel_at_period_end: cancel });
      }),
    endSubscription: (order: RunningSubscription & { checkout_reference: string | null }) =>
      mapStripeErrors(NOT_CHANGED, async () => {
        const { subscription_reference, checkout_reference } = order;
        if (subscription_reference !== null) await ignoreMissing(stripe.subscriptions.cancel(subscription_reference));
        if (checkout_reference !== null) await ignoreMissing(stripe.checkout.sessions.expire(checkout_reference));
      }),
    withdraw: ({ payment_id, payer }: { payment_id: string; payer: Payer }) =>
      mapStripeErrors(STAYS_OPEN, () => withdrawBill(stripe, { payment_id, customer: payer.customer_reference })),
    chargeTopUp: (order: BillOrder) =>
      mapStripeErrors(STAYS_OPEN, async () => {
        const customer = await findCustomer(order.payer);
        const bill = await collectBill(stripe, { ...order, customer, owed: false });
        return startedWith(customer, bill.invoice.id, billEvents(order.payment_id, bill));
      }),
    chargeOverage: (order: BillOrder) =>
      mapStripeErrors(STAYS_OPEN, async (): Promise<Started> => {
        const customer = await findCustomer(order.payer);
        const { invoice, declined } = await collectBill(stripe, { ...order, customer, owed: true });
        const started = startedWith(customer, invoice.id, billEvents(order.payment_id, { invoice, declined }));
        return { ...started, checkout_url: invoice.status === "open" ? (invoice.hosted_invoice_url ?? null) : null };
      }),
  };

  async function chargeDifference(order: PlanChangeOrder & { when: "now" }): Promise<Started> {
    const { payment_id, payer, amount_cents, plan, subscription_reference } = order;
    const customer = await findCustomer(payer);
    const bill = await collectBill(stripe, {
      payment_id,
      amount_cents,
      currency: plan.currency,
      description: `Change to ${plan.name}`,
      customer,
      subscription_reference,
      owed: false,
    });
    if (bill.declined || bill.invoice.status === "void") throw billingErrors.paymentFailed();
    return startedWith(customer, bill.invoice.id, billEvents(payment_id, bill));
  }
}

/** Sets the subscription's price from the next period. The current period keeps its price. */
async function switchPrice(
  stripe: Stripe,
  reference: string,
  { subscription_id, plan, cancel }: PlanChangeOrder & { when: "period_end" },
): Promise<void> {
  const subscription = await stripe.subscriptions.retrieve(reference);
  if (subscription.status === "canceled") return;
  const [item] = subscription.items.data;
  if (item === undefined) throw new Error("The Stripe subscription has no item.");
  const product = typeof item.price.product === "string" ? item.price.product : item.price.product.id;
  await stripe.subscriptions.update(reference, {
    proration_behavior: "none",
    metadata: subscriptionMetadata(subscription_id, plan),
    ...(cancel === undefined ? {} : { cancel_at_period_end: cancel }),
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

function startedWith(
  customer_reference: string | null,
  reference: string | null,
  events: PaymentEvent[] = [],
): Started {
  return { checkout_url: null, customer_reference, reference, events };
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
      "The signature does not match, or is older than five minutes. Check STRIPE_WEBHOOK_SECRET.",
    );
  }
}

/** Ignores the error when the object has already ended or does not exist. */
async function ignoreMissing(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) throw error;
  }
}

/** Resolves to null when the object does not exist. */
async function nullIfMissing<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError && error.statusCode === 404) return null;
    throw error;
  }
}

/**
 * Maps Stripe's errors to Purser's, without Stripe's text, which may quote the request. `known` says what is known
 * about the money.
 */
async function mapStripeErrors<T>(known: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof Stripe.errors.StripeCardError) throw billingErrors.paymentFailed();
    if (error instanceof Stripe.errors.StripeError) {
      throw errors.upstream(known, new Error(`stripe: ${error.type} ${error.code ?? ""}`));
    }
    throw error;
  }
}
