import { createEventLog, WEBHOOK_SECRET } from "./stripe-event-log.ts";
import type {
  Charge,
  Customer,
  Dispute,
  Invoice,
  Metadata,
  Refund,
  Session,
  StripeObject,
  Subscription,
} from "./stripe-objects.ts";
import { declined, type Form, invalid, noSuch, type Route, STRIPE_KEY, serveStripe } from "./stripe-server.ts";

// A local fake of the part of Stripe that Purser uses: the same paths, form bodies, idempotency keys and objects.
// The test acts for the payer and the bank: pay, expire, renew, refund, dispute. It also delivers the events itself,
// signed, in any order and as often as it likes.

export { type StripeEvent, WEBHOOK_SECRET } from "./stripe-event-log.ts";

/** The settings of a service that uses the fake, with the clock at `now`. */
export const stripeSettings = (stripe: { url: string }, now: string) => ({
  PURSER_TEST_CLOCK: now,
  PURSER_PAYMENTS: "stripe",
  STRIPE_SECRET_KEY: STRIPE_KEY,
  STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
  STRIPE_API_BASE: stripe.url,
});

/** `now` is the time from which Stripe counts periods, as an ISO instant. */
export async function startStripe(options: { now(): string }) {
  const objects = new Map<string, StripeObject>();
  const log = createEventLog();
  let sequence = 0;
  /** The customers whose checkout saved their card. */
  const saved_cards = new Set<string>();
  const saving_sessions = new Set<string>();
  let card_declines = false;
  let pays_late = false;

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
  const addEvent = (type: string, object: StripeObject) => {
    sequence += 1;
    log.keepEvent({ id: `evt_${sequence}`, type, data: { object: structuredClone(object) } });
  };
  const collect = (amount: number): string => {
    if (card_declines) throw declined();
    sequence += 1;
    const payment_intent = `pi_${sequence}`;
    const receipt_url = `https://pay.stripe.com/receipts/${payment_intent}`;
    add<Charge>("ch", { object: "charge", payment_intent, amount, paid: true, receipt_url });
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
    addEvent("invoice.paid", invoice);
    return invoice;
  };
  const newInvoice = (customer: string, currency: string, metadata: Metadata): Invoice =>
    add<Invoice>("in", {
      object: "invoice",
      customer,
      currency,
      metadata,
      auto_advance: false,
      hosted_invoice_url: null,
      status: "draft",
      total: 0,
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
    invoice.total = item.price.unit_amount;
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
    invoice.auto_advance = true;
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

  const routes: Route[] = [
    [
      "POST",
      /^\/v1\/customers$/,
      (form) => add<Customer>("cus", { object: "customer", metadata: form.metadata as Metadata }),
    ],
    [
      "GET",
      /^\/v1\/customers\/(\w+)\/payment_methods$/,
      (_, id) => ({ object: "list", data: saved_cards.has(id) ? [{ id: "pm_saved" }] : [], has_more: false }),
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
    ["GET", /^\/v1\/invoices$/, (form) => listOf("invoice", "customer", form)],
    ["POST", /^\/v1\/invoices\/(\w+)\/finalize$/, (form, id) => finalizeInvoice(form, id)],
    ["POST", /^\/v1\/invoices\/(\w+)\/pay$/, (form, id) => payInvoice(form, id)],
    ["POST", /^\/v1\/invoices\/(\w+)\/void$/, (_, id) => voidInvoice(id)],
    ["GET", /^\/v1\/invoices\/(\w+)$/, (_, id) => get<Invoice>(id)],
    ["DELETE", /^\/v1\/invoices\/(\w+)$/, (_, id) => deleteDraft(id)],
    ["GET", /^\/v1\/charges$/, (form) => listOf("charge", "payment_intent", form)],
    ["POST", /^\/v1\/refunds$/, (form) => refundAsAsked(form)],
    ["GET", /^\/v1\/refunds$/, (form) => listOf("refund", "payment_intent", form)],
    ["GET", /^\/v1\/events$/, (form) => log.listEvents(form)],
    ["GET", /^\/v1\/disputes\/(\w+)$/, (_, id) => get<Dispute>(id)],
  ];

  /** Newest first, in pages as Stripe gives them. */
  function listOf(object: StripeObject["object"], by: string, form: Form): object {
    const all = [...objects.values()].filter((each) => each.object === object).reverse();
    const mine = all.filter((each) => (each as unknown as Form)[by] === form[by]);
    const from = mine.findIndex(({ id }) => id === form.starting_after) + 1;
    const data = mine.slice(from, from + Math.min(Number(form.limit), 2));
    return { object: "list", data, has_more: from + data.length < mine.length };
  }
  function refund(payment_intent: string, cents: number): Refund {
    const charge = chargeOf(payment_intent);
    const about = { charge: charge.id, payment_intent, amount: cents, status: "succeeded" as const };
    const made = add<Refund>("re", { object: "refund", ...about });
    addEvent("charge.refunded", charge);
    return made;
  }
  function refundAsAsked({ payment_intent, amount }: Form): Refund {
    const refunds = [...objects.values()].filter((each): each is Refund => each.object === "refund");
    const sent = refunds.filter((each) => each.payment_intent === payment_intent && each.status === "succeeded");
    const rest = sent.reduce((left, each) => left - each.amount, chargeOf(String(payment_intent)).amount);
    if (Number(amount) > rest) throw invalid("Refund amount is greater than unrefunded amount on charge");
    return refund(String(payment_intent), Number(amount));
  }
  function finalizeInvoice(form: Form, id: string): Invoice {
    const invoice = get<Invoice>(id);
    if (invoice.status !== "draft") throw invalid("This invoice is already finalized.");
    invoice.auto_advance = form.auto_advance === "true";
    invoice.hosted_invoice_url = `https://invoice.stripe.example/${id}`;
    invoice.status = "open";
    // Stripe settles an invoice of 0 at once.
    return invoice.amount_due === 0 ? settleInvoice(invoice) : invoice;
  }
  function newSession(form: Form): Session {
    // biome-ignore lint/suspicious/noExplicitAny: a form with any fields
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
    if ((form.payment_intent_data as Form | undefined)?.setup_future_usage === "off_session")
      saving_sessions.add(session.id);
    session.url = `https://checkout.stripe.example/${session.id}`;
    return session;
  }
  function expire(id: string): Session {
    const session = get<Session>(id);
    if (session.status !== "open") throw invalid("Only Checkout Sessions with a status in [open] can be expired.");
    session.status = "expired";
    addEvent("checkout.session.expired", session);
    return session;
  }
  function updateSubscription(form: Form, id: string): Subscription {
    const subscription = get<Subscription>(id);
    if (subscription.status === "canceled")
      throw invalid("A canceled subscription can only update its cancellation_details.");
    if (form.cancel_at_period_end !== undefined)
      subscription.cancel_at_period_end = form.cancel_at_period_end === "true";
    if (form.metadata !== undefined) subscription.metadata = form.metadata as Metadata;
    // biome-ignore lint/suspicious/noExplicitAny: a form with any fields
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
    addEvent("customer.subscription.deleted", subscription);
    return subscription;
  }
  function payInvoice(form: Form, id: string): Invoice {
    const invoice = get<Invoice>(id);
    if (invoice.status !== "open") throw invalid("Invoice is not open.");
    if (form.payment_method === undefined) throw invalid("There is no `default_payment_method` set on this Customer.");
    return pays_late ? invoice : settleInvoice(invoice);
  }
  function deleteDraft(id: string): object {
    if (get<Invoice>(id).status !== "draft") throw invalid("You can only delete draft invoices.");
    objects.delete(id);
    return { id, object: "invoice", deleted: true };
  }
  function voidInvoice(id: string): Invoice {
    const invoice = get<Invoice>(id);
    if (pays_late) throw invalid("This invoice has a payment in progress.");
    if (invoice.status !== "open" && invoice.status !== "uncollectible")
      throw invalid("You can only pass in open invoices.");
    invoice.status = "void";
    addEvent("invoice.voided", invoice);
    return invoice;
  }
  function addItem(form: Form): object {
    const invoice = get<Invoice>(String(form.invoice));
    if (invoice.status !== "draft") throw invalid("The invoice is no longer a draft.");
    invoice.total += Number(form.amount);
    invoice.amount_due += Number(form.amount);
    invoice.lines.data.push({ amount: Number(form.amount), period: { start: 0, end: 0 }, parent: null });
    return { id: "ii_1", object: "invoiceitem" };
  }

  const server = await serveStripe(routes);

  return {
    ...server,
    object: get,
    /** The session behind a checkout page. */
    sessionAt: (checkout_url: string) => get<Session>(checkout_url.split("/").at(-1) ?? ""),
    /** Whether cards are declined from now on. */
    declineCards: (decline: boolean) => {
      card_declines = decline;
    },
    /** Whether invoices are paid only days after the request to pay them. */
    payLate: (late: boolean) => {
      pays_late = late;
    },
    /** The bank's late answer to `pay`: the money arrives, or it does not. */
    settleLate(invoice: Invoice, arrives: boolean): void {
      if (arrives) settleInvoice(invoice);
      else addEvent("invoice.payment_failed", invoice);
    },
    writeOff(invoice: Invoice): void {
      invoice.status = "uncollectible";
      addEvent("invoice.marked_uncollectible", invoice);
    },
    voidInvoice,
    /** The subscription ends at Stripe, without a request from Purser. */
    cancelSubscription,
    /** The payer pays an open invoice on its hosted page. */
    payInvoice: settleInvoice,
    /** The invoices of a payment by Purser. */
    invoices: () => [...objects.values()].filter((each): each is Invoice => each.object === "invoice"),
    /** The payer completes the checkout page. */
    pay(checkout_url: string): Session {
      const session = this.sessionAt(checkout_url);
      session.status = "complete";
      session.payment_status = "paid";
      if (session.mode === "payment") {
        session.payment_intent = collect(session.amount_total);
        if (saving_sessions.has(session.id)) saved_cards.add(session.customer);
      } else {
        const subscription = startSubscription(session);
        session.subscription = subscription.id;
        settleInvoice(periodInvoice(subscription));
      }
      addEvent("checkout.session.completed", session);
      return session;
    },
    expire: (checkout_url: string) => expire(checkout_url.split("/").at(-1) ?? ""),
    /** The next period begins: it is paid, its payment is declined (past due), or the subscription ends as requested. */
    renew(subscription_id: string): void {
      const subscription = get<Subscription>(subscription_id);
      const [item] = subscription.items.data;
      if (subscription.cancel_at_period_end) return void cancelSubscription(subscription_id);
      if (item === undefined) return;
      item.current_period_start = item.current_period_end;
      item.current_period_end = addMonth(item.current_period_start);
      const invoice = periodInvoice(subscription);
      subscription.status = card_declines ? "past_due" : "active";
      if (card_declines) addEvent("invoice.payment_failed", invoice);
      else settleInvoice(invoice);
    },
    refund,
    refundsOf: (payment_intent: string) =>
      [...objects.values()].filter(
        (each): each is Refund => each.object === "refund" && each.payment_intent === payment_intent,
      ),
    /** The bank rejects the refund, and its money comes back. */
    failRefund(refund: Refund): void {
      refund.status = "failed";
      addEvent("charge.refund.updated", refund);
      addEvent("refund.failed", refund);
    },
    dispute(payment_intent: string, status: Dispute["status"] = "needs_response"): Dispute {
      const charge = chargeOf(payment_intent);
      const about = { charge: charge.id, payment_intent, amount: charge.amount, status };
      const dispute = add<Dispute>("dp", { object: "dispute", ...about });
      addEvent("charge.dispute.created", dispute);
      return dispute;
    },
    /** An inquiry becomes a dispute. */
    escalate(dispute: Dispute): void {
      dispute.status = "needs_response";
      addEvent("charge.dispute.updated", dispute);
      addEvent("charge.dispute.funds_withdrawn", dispute);
    },
    closeDispute(id: string, status: "won" | "lost" | "warning_closed"): void {
      const dispute = get<Dispute>(id);
      dispute.status = status;
      addEvent("charge.dispute.closed", dispute);
    },
    ...log,
  };
}

/** A month later, with the day limited to the month's last day, as Stripe counts. */
function addMonth(seconds: number): number {
  const at = Temporal.Instant.fromEpochMilliseconds(seconds * 1000).toZonedDateTimeISO("UTC");
  return Math.floor(at.add({ months: 1 }).epochMilliseconds / 1000);
}
