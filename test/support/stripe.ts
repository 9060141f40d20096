import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import Stripe from "stripe";
import {
  type Charge,
  type Customer,
  type Dispute,
  type Invoice,
  type Metadata,
  parseForm,
  type Session,
  type StripeObject,
  type Subscription,
} from "./stripe-objects.ts";

// A local stand-in for the part of Stripe that Purser uses: the same paths, form bodies, idempotency keys and objects.
// What the payer or the bank does is done by the test: pay, expire, renew, refund, dispute. Nothing is delivered by
// itself: the test takes the events and sends them, signed, as often and in whichever order it likes.

export const STRIPE_KEY = "sk_test_local";
export const WEBHOOK_SECRET = "whsec_local";

export interface StripeEvent {
  id: string;
  type: string;
  data: { object: unknown };
}

interface Refused {
  status: number;
  error: { type: string; code?: string; message: string };
}

type Form = Record<string, unknown>;

export class StripeRefusal extends Error {
  readonly refused: Refused;
  constructor(refused: Refused) {
    super(refused.error.message);
    this.refused = refused;
  }
}

const noSuch = () =>
  new StripeRefusal({
    status: 404,
    error: { type: "invalid_request_error", code: "resource_missing", message: "No such object" },
  });
const invalid = (message: string) =>
  new StripeRefusal({ status: 400, error: { type: "invalid_request_error", message } });
const declined = () =>
  new StripeRefusal({
    status: 402,
    error: { type: "card_error", code: "card_declined", message: "Your card was declined." },
  });

/** `now` is the time that Stripe reckons periods from, as an ISO instant. */
export async function startStripe(options: { now(): string }) {
  const objects = new Map<string, StripeObject>();
  const answers = new Map<string, { hash: string; status: number; body: string }>();
  const events: StripeEvent[] = [];
  const requests: { method: string; path: string; form: Form }[] = [];
  let sequence = 0;
  let card_declines = false;

  const seconds = () => Math.floor(Date.parse(options.now()) / 1000);
  const add = <T extends StripeObject>(prefix: string, object: Omit<T, "id">): T => {
    sequence += 1;
    const added = { ...object, id: `${prefix}_${sequence}` } as unknown as T;
    objects.set(added.id, added);
    return added;
  };
  const get = <T extends StripeObject>(id: string): T => {
    const found = objects.get(id);
    if (found === undefined) throw noSuch();
    return found as T;
  };
  const tell = (type: string, object: StripeObject) => {
    sequence += 1;
    events.push({ id: `evt_${sequence}`, type, data: { object: structuredClone(object) } });
  };
  const collect = (amount: number): string => {
    if (card_declines) throw declined();
    sequence += 1;
    const payment_intent = `pi_${sequence}`;
    add<Charge>("ch", { object: "charge", payment_intent, amount, amount_refunded: 0 });
    return payment_intent;
  };
  const chargeOf = (payment_intent: string): Charge => {
    const charge = [...objects.values()].find(
      (each) => each.object === "charge" && each.payment_intent === payment_intent,
    );
    if (charge === undefined) throw noSuch();
    return charge as Charge;
  };
  const settleInvoice = (invoice: Invoice): Invoice => {
    const payment_intent = collect(invoice.amount_due);
    invoice.status = "paid";
    invoice.amount_paid = invoice.amount_due;
    invoice.payments.data.push({ status: "paid", payment: { type: "payment_intent", payment_intent } });
    tell("invoice.paid", invoice);
    return invoice;
  };
  const newInvoice = (customer: string, currency: string, metadata: Metadata): Invoice =>
    add<Invoice>("in", {
      object: "invoice",
      customer,
      currency,
      metadata,
      status: "draft",
      amount_due: 0,
      amount_paid: 0,
      parent: null,
      lines: { object: "list", data: [] },
      payments: { object: "list", data: [] },
    });
  const periodInvoice = (subscription: Subscription): Invoice => {
    const [item] = subscription.items.data;
    if (item === undefined) throw new Error("no item");
    const invoice = newInvoice(subscription.customer, item.price.currency, {});
    const period = { start: item.current_period_start, end: item.current_period_end };
    invoice.amount_due = item.price.unit_amount;
    invoice.parent = {
      type: "subscription_details",
      subscription_details: { subscription: subscription.id, metadata: { ...subscription.metadata } },
    };
    invoice.lines.data.push({
      amount: item.price.unit_amount,
      period,
      parent: { subscription_item_details: { proration: false } },
    });
    invoice.status = "open";
    return invoice;
  };
  const startSubscription = (session: Session): Subscription => {
    const start = seconds();
    const price = { id: "price_1", product: "prod_1", unit_amount: session.amount_total, currency: session.currency };
    return add<Subscription>("sub", {
      object: "subscription",
      customer: session.customer,
      status: "active",
      cancel_at_period_end: false,
      default_payment_method: "pm_1",
      metadata: session.inner_metadata,
      items: {
        object: "list",
        data: [{ id: "si_1", current_period_start: start, current_period_end: addMonth(start), price }],
      },
    });
  };

  const routes: [method: string, pattern: RegExp, handle: (form: Form, id: string) => StripeObject | object][] = [
    [
      "POST",
      /^\/v1\/customers$/,
      (form) => add<Customer>("cus", { object: "customer", metadata: form.metadata as Metadata }),
    ],
    ["POST", /^\/v1\/checkout\/sessions$/, (form) => newSession(form)],
    ["GET", /^\/v1\/checkout\/sessions\/(\w+)$/, (_, id) => get<Session>(id)],
    ["POST", /^\/v1\/checkout\/sessions\/(\w+)\/expire$/, (_, id) => expire(id)],
    ["GET", /^\/v1\/subscriptions\/(\w+)$/, (_, id) => get<Subscription>(id)],
    ["POST", /^\/v1\/subscriptions\/(\w+)$/, (form, id) => updateSubscription(form, id)],
    ["DELETE", /^\/v1\/subscriptions\/(\w+)$/, (_, id) => cancelSubscription(id)],
    [
      "POST",
      /^\/v1\/invoices$/,
      (form) => newInvoice(String(form.customer), String(form.currency), (form.metadata ?? {}) as Metadata),
    ],
    ["POST", /^\/v1\/invoiceitems$/, (form) => addItem(form)],
    ["POST", /^\/v1\/invoices\/(\w+)\/finalize$/, (_, id) => Object.assign(get<Invoice>(id), { status: "open" })],
    ["POST", /^\/v1\/invoices\/(\w+)\/pay$/, (form, id) => payInvoice(form, id)],
    ["POST", /^\/v1\/invoices\/(\w+)\/void$/, (_, id) => voidInvoice(id)],
    ["GET", /^\/v1\/invoices\/(\w+)$/, (_, id) => get<Invoice>(id)],
    ["GET", /^\/v1\/charges\/(\w+)$/, (_, id) => get<Charge>(id)],
    ["GET", /^\/v1\/disputes\/(\w+)$/, (_, id) => get<Dispute>(id)],
  ];

  function newSession(form: Form): Session {
    // biome-ignore lint/suspicious/noExplicitAny: a form as it came
    const line = (form.line_items as any)["0"];
    const subscription_data = (form.subscription_data ?? form.payment_intent_data ?? {}) as { metadata?: Metadata };
    if (form.success_url === undefined) throw invalid("Missing required param: success_url.");
    const session = add<Session>("cs", {
      object: "checkout.session",
      mode: form.mode as Session["mode"],
      status: "open",
      payment_status: "unpaid",
      url: "",
      customer: String(form.customer),
      payment_intent: null,
      subscription: null,
      amount_total: Number(line.price_data.unit_amount) * Number(line.quantity),
      currency: line.price_data.currency,
      metadata: (form.metadata ?? {}) as Metadata,
      success_url: String(form.success_url),
      cancel_url: String(form.cancel_url),
      inner_metadata: subscription_data.metadata ?? {},
    });
    session.url = `https://checkout.stripe.example/${session.id}`;
    return session;
  }
  function expire(id: string): Session {
    const session = get<Session>(id);
    if (session.status !== "open") throw invalid("Only Checkout Sessions with a status in [open] can be expired.");
    session.status = "expired";
    tell("checkout.session.expired", session);
    return session;
  }
  function updateSubscription(form: Form, id: string): Subscription {
    const subscription = get<Subscription>(id);
    if (subscription.status === "canceled")
      throw invalid("A canceled subscription can only update its cancellation_details.");
    if (form.cancel_at_period_end !== undefined)
      subscription.cancel_at_period_end = form.cancel_at_period_end === "true";
    if (form.metadata !== undefined) subscription.metadata = form.metadata as Metadata;
    // biome-ignore lint/suspicious/noExplicitAny: a form as it came
    const price = (form.items as any)?.["0"]?.price_data;
    const [item] = subscription.items.data;
    if (price !== undefined && item !== undefined)
      item.price = { ...item.price, unit_amount: Number(price.unit_amount), currency: price.currency };
    return subscription;
  }
  function cancelSubscription(id: string): Subscription {
    const subscription = get<Subscription>(id);
    if (subscription.status === "canceled") throw noSuch();
    subscription.status = "canceled";
    tell("customer.subscription.deleted", subscription);
    return subscription;
  }
  function payInvoice(form: Form, id: string): Invoice {
    const invoice = get<Invoice>(id);
    if (invoice.status !== "open") throw invalid("Invoice is not open.");
    if (form.payment_method === undefined) throw invalid("There is no `default_payment_method` set on this Customer.");
    return settleInvoice(invoice);
  }
  function voidInvoice(id: string): Invoice {
    const invoice = get<Invoice>(id);
    if (invoice.status !== "open") throw invalid("You can only pass in open invoices.");
    invoice.status = "void";
    tell("invoice.voided", invoice);
    return invoice;
  }
  function addItem(form: Form): object {
    const invoice = get<Invoice>(String(form.invoice));
    if (invoice.status !== "draft") throw invalid("The invoice is no longer a draft.");
    invoice.amount_due += Number(form.amount);
    return { id: "ii_1", object: "invoiceitem" };
  }

  const server = createServer(async (request, response) => {
    const { status, body } = await answer(request);
    response.writeHead(status, { "Content-Type": "application/json", "Request-Id": "req_local" }).end(body);
  });
  async function answer(request: IncomingMessage): Promise<{ status: number; body: string }> {
    let text = "";
    for await (const chunk of request) text += chunk;
    const path = (request.url ?? "").split("?")[0] ?? "";
    const key = request.headers["idempotency-key"];
    const hash = createHash("sha256").update(`${request.method} ${path} ${text}`).digest("hex");
    const known = typeof key === "string" ? answers.get(key) : undefined;
    if (known !== undefined) {
      if (known.hash === hash) return known;
      return {
        status: 400,
        body: JSON.stringify({
          error: {
            type: "idempotency_error",
            message: "Keys for idempotent requests can only be used with the same parameters",
          },
        }),
      };
    }
    const done = { hash, ...handle(request, path, parseForm(text)) };
    if (typeof key === "string" && done.status < 500) answers.set(key, done);
    return done;
  }
  function handle(request: IncomingMessage, path: string, form: Form): { status: number; body: string } {
    requests.push({ method: request.method ?? "", path, form });
    try {
      if (request.headers.authorization !== `Bearer ${STRIPE_KEY}`)
        throw new StripeRefusal({ status: 401, error: { type: "invalid_request_error", message: "Invalid API Key" } });
      const route = routes.find(([method, pattern]) => method === request.method && pattern.test(path));
      if (route === undefined) throw noSuch();
      return { status: 200, body: JSON.stringify(route[2](form, route[1].exec(path)?.[1] ?? "")) };
    } catch (error) {
      if (!(error instanceof StripeRefusal)) throw error;
      return { status: error.refused.status, body: JSON.stringify({ error: error.refused.error }) };
    }
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    object: get,
    /** The session behind a checkout page. */
    sessionAt: (checkout_url: string) => get<Session>(checkout_url.split("/").at(-1) ?? ""),
    /** From now on, cards are declined (true) or taken. */
    declineCards: (decline: boolean) => {
      card_declines = decline;
    },
    /** The invoices of a payment of ours. */
    invoices: () => [...objects.values()].filter((each): each is Invoice => each.object === "invoice"),
    /** The payer completes the checkout page. */
    pay(checkout_url: string): Session {
      const session = this.sessionAt(checkout_url);
      session.status = "complete";
      session.payment_status = "paid";
      if (session.mode === "payment") {
        session.payment_intent = collect(session.amount_total);
      } else {
        const subscription = startSubscription(session);
        session.subscription = subscription.id;
        settleInvoice(periodInvoice(subscription));
      }
      tell("checkout.session.completed", session);
      return session;
    },
    expire: (checkout_url: string) => expire(checkout_url.split("/").at(-1) ?? ""),
    /** The next period begins: paid, refused (past due), or, where the end was asked for, over. */
    renew(subscription_id: string): void {
      const subscription = get<Subscription>(subscription_id);
      const [item] = subscription.items.data;
      if (subscription.cancel_at_period_end) return void cancelSubscription(subscription_id);
      if (item === undefined) return;
      item.current_period_start = item.current_period_end;
      item.current_period_end = addMonth(item.current_period_start);
      const invoice = periodInvoice(subscription);
      subscription.status = card_declines ? "past_due" : "active";
      if (card_declines) tell("invoice.payment_failed", invoice);
      else settleInvoice(invoice);
    },
    refund(payment_intent: string, cents: number): void {
      const charge = chargeOf(payment_intent);
      charge.amount_refunded = Math.min(charge.amount, charge.amount_refunded + cents);
      tell("charge.refunded", charge);
    },
    dispute(payment_intent: string): Dispute {
      const charge = chargeOf(payment_intent);
      const about = { charge: charge.id, payment_intent, amount: charge.amount, status: "needs_response" as const };
      const dispute = add<Dispute>("dp", { object: "dispute", ...about });
      tell("charge.dispute.created", dispute);
      return dispute;
    },
    closeDispute(id: string, status: "won" | "lost"): void {
      const dispute = get<Dispute>(id);
      dispute.status = status;
      tell("charge.dispute.closed", dispute);
    },
    /** What Stripe has to tell since the last time, oldest first. */
    takeEvents: (): StripeEvent[] => events.splice(0),
    /** Sends an event to the service as Stripe does; `secret` other than ours makes a forgery. */
    async deliver(service_url: string, event: StripeEvent, secret = WEBHOOK_SECRET): Promise<Response> {
      const payload = JSON.stringify({
        object: "event",
        api_version: "2026-10-28.endive",
        created: Math.floor(Date.now() / 1000),
        ...event,
      });
      const signature = new Stripe(STRIPE_KEY).webhooks.generateTestHeaderString({ payload, secret });
      return fetch(`${service_url}/api/v1/billing/stripe/webhook`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Stripe-Signature": signature },
        body: payload,
      });
    },
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A month later, the day clamped to the month's end, as Stripe reckons. */
function addMonth(seconds: number): number {
  const at = Temporal.Instant.fromEpochMilliseconds(seconds * 1000).toZonedDateTimeISO("UTC");
  return Math.floor(at.add({ months: 1 }).epochMilliseconds / 1000);
}
