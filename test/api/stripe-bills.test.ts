import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createStripePayments, type StripePayments } from "../../src/account/billing/stripe.adapter.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture, forgetPayments } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startStripe, WEBHOOK_SECRET } from "../support/stripe.ts";
import type { Invoice } from "../support/stripe-objects.ts";
import { STRIPE_KEY } from "../support/stripe-server.ts";

// Purser's own charges through Stripe, upgrades and overage: once, also with repeated requests to Stripe, and only after
// the payment.

const NOW = "2026-01-31T00:00:00.000Z";

let database: TestDatabase;
let db: Db;
let stripe: Awaited<ReturnType<typeof startStripe>>;
let provider: StripePayments;
let fixture: ReturnType<typeof createBillingFixture>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  stripe = await startStripe({ now: () => NOW });
  const keys = { secret_key: STRIPE_KEY, webhook_secret: WEBHOOK_SECRET };
  provider = createStripePayments({ ...keys, api_base: stripe.url, public_url: "https://purser.example" });
});
afterAll(async () => {
  await db.close();
  await database.drop();
  stripe.stop();
});
beforeEach(async () => {
  await forgetPayments(db);
  fixture = createBillingFixture(db, { provider });
});

const deliverAll = async () => {
  for (const event of stripe.takeEvents()) {
    const { payload, signature } = stripe.signed(event);
    for (const event of await provider.eventsOf(payload, signature)) await fixture.billing.applyPaymentEvent(event);
  }
};
const planOf = async (user_id: string) => (await fixture.billing.subscription(user_id)).plan_id;
const posted = async (user_id: string) => (await fixture.balance(user_id)).posted;
const statusOf = (user_id: string) => fixture.billing.overage.status(user_id);
const invoicesOf = (user_id: string) => fixture.billing.invoices.list({ user_id }, { limit: 10, before_id: null });
/** A subscriber, with Stripe's monthly price. */
const subscriber = async (plan_id = "starter") => {
  const user_id = await fixture.account();
  const { subscription } = await fixture.billing.subscribe(user_id, plan_id);
  const session = stripe.pay(subscription.checkout_url ?? "");
  await deliverAll();
  const running = stripe.object(session.subscription ?? "");
  if (running.object !== "subscription") throw new Error("no subscription");
  const state = { price: () => running.items.data[0]?.price.unit_amount, ends: () => running.cancel_at_period_end };
  return { user_id, ...state, customer: session.customer };
};
/** The one invoice that Purser made for this customer. */
const billOf = (customer: string): Invoice => {
  const bills = stripe.invoices().filter((each) => each.customer === customer && each.parent === null);
  expect(bills).toHaveLength(1);
  return bills[0] as Invoice;
};
const sendAgain = async () => {
  await db.query({ text: "update payment set send_at = now() where send_at is not null" });
  await fixture.sweep();
};
/** Uses 100 dollars of overage, which are invoiced at once. */
const overrun = async (user_id: string) => {
  await fixture.billing.overage.enable(user_id);
  const tokens = (await posted(user_id)) + 62_500_000;
  const held = await fixture.hold(user_id, tokens);
  if (held.status !== "held") throw new Error(`not held: ${held.code}`);
  await fixture.settle(user_id, held.hold_id, tokens);
  await fixture.sweep();
};

describe("an upgrade through Stripe", () => {
  it.each([
    ["draft", /POST \/v1\/invoices$/],
    ["line", /POST \/v1\/invoiceitems$/],
    ["finished invoice", /POST .*\/finalize$/],
    ["payment", /POST .*\/pay$/],
  ])("is charged once when the answer about its %s was lost and Stripe has forgotten the key", async (_, call) => {
    const { user_id, price, customer } = await subscriber();
    stripe.loseAnswers(call);
    const lost = await fixture.billing.subscribe(user_id, "pro").catch((error) => error);
    stripe.loseAnswers(null);
    // The error says only what is known. It must not say that nothing was charged.
    expect(lost).toMatchObject({ code: "upstream_error", message: expect.stringContaining("The order stays open") });
    expect(lost.message).not.toContain("Nothing was charged");
    await expect(fixture.billing.subscribe(user_id, "enterprise")).rejects.toMatchObject({
      code: "plan_change_in_flight",
    });
    stripe.forgetKeys();
    await sendAgain();
    await deliverAll();
    await fixture.sweep();
    expect(billOf(customer)).toMatchObject({ status: "paid", amount_paid: 6000, lines: { data: [{ amount: 6000 }] } });
    expect([await planOf(user_id), price(), await posted(user_id)]).toEqual(["pro", 8900, 55_000_000]);
  });

  it("whose payment takes days changes plan, tokens and price when the money has arrived", async () => {
    const { user_id, price, customer } = await subscriber();
    stripe.payLate(true);
    const { subscription } = await fixture.billing.subscribe(user_id, "pro");
    stripe.payLate(false);
    await fixture.sweep();
    expect(subscription).toMatchObject({ plan_id: "starter", status: "active" });
    expect([price(), await posted(user_id)]).toEqual([2900, 18_000_000]);
    stripe.settleLate(billOf(customer), true);
    await deliverAll();
    await fixture.sweep();
    expect([await planOf(user_id), price(), await posted(user_id)]).toEqual(["pro", 8900, 55_000_000]);
  });

  it("whose payment fails after days changes nothing, is not collected later, and can be ordered again", async () => {
    const { user_id, price, customer } = await subscriber();
    stripe.payLate(true);
    await fixture.billing.subscribe(user_id, "pro");
    stripe.payLate(false);
    stripe.settleLate(billOf(customer), false);
    await deliverAll();
    await deliverAll();
    await fixture.sweep();
    expect(billOf(customer).status).toBe("void");
    expect([await planOf(user_id), price(), await posted(user_id)]).toEqual(["starter", 2900, 18_000_000]);
    const { subscription } = await fixture.billing.subscribe(user_id, "professional");
    expect(subscription.plan_id).toBe("professional");
  });

  it.each([
    ["undoes a cancellation", true, false],
    ["does not undo a cancellation that followed it", false, true],
  ])("that is paid after its request %s, in Purser and at Stripe", async (_, is_before, is_cancelled) => {
    const { user_id, price, ends, customer } = await subscriber();
    if (is_before) await fixture.billing.cancelSubscription(user_id);
    stripe.payLate(true);
    await fixture.billing.subscribe(user_id, "pro");
    stripe.payLate(false);
    if (!is_before) await fixture.billing.cancelSubscription(user_id);
    await fixture.sweep();
    expect(ends()).toBe(true);
    expect((await fixture.billing.subscription(user_id)).cancel_at_period_end).toBe(true);
    stripe.settleLate(billOf(customer), true);
    await deliverAll();
    await fixture.sweep();
    expect([price(), ends()]).toEqual([8900, is_cancelled]);
    const paid = { plan_id: "pro", cancel_at_period_end: is_cancelled, pending_plan_id: null };
    expect(await fixture.billing.subscription(user_id)).toMatchObject(paid);
  });

  it("that is paid at once undoes a cancellation, also if Stripe does not answer about the new price", async () => {
    const { user_id, price, ends } = await subscriber();
    await fixture.billing.cancelSubscription(user_id);
    stripe.loseAnswers(/POST \/v1\/subscriptions\/\w+$/);
    await fixture.billing.subscribe(user_id, "pro");
    stripe.loseAnswers(null);
    await sendAgain();
    await sendAgain();
    expect([price(), ends()]).toEqual([8900, false]);
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "pro", cancel_at_period_end: false });
  });

  it("that is declined leaves nothing that could be collected later", async () => {
    const { user_id, price, customer } = await subscriber();
    stripe.declineCards(true);
    await expect(fixture.billing.subscribe(user_id, "pro")).rejects.toMatchObject({ code: "payment_failed" });
    stripe.declineCards(false);
    await deliverAll();
    await fixture.sweep();
    expect(billOf(customer).status).toBe("void");
    expect([await planOf(user_id), price()]).toEqual(["starter", 2900]);
  });
});

describe("overage through Stripe", () => {
  it("is charged to the subscription's means of payment, and the operator cannot mark it as paid", async () => {
    const { user_id, customer } = await subscriber("enterprise");
    await overrun(user_id);
    expect(billOf(customer)).toMatchObject({ status: "paid", amount_paid: 10_000 });
    const [invoice] = await invoicesOf(user_id);
    const charged = { amount_cents: 10_000, tokens: 62_500_000, collected_by: "stripe", checkout_url: null };
    expect(invoice).toMatchObject({ status: "paid", ...charged });
    await expect(fixture.billing.invoices.settle(invoice?.id ?? "", "void")).rejects.toMatchObject({
      code: "invoice_collected_elsewhere",
    });
  });

  it("is never finalized as an empty invoice, which would count as paid", async () => {
    const { user_id, customer } = await subscriber("enterprise");
    stripe.loseAnswers(/POST \/v1\/invoiceitems$/);
    await expect(overrun(user_id)).rejects.toThrow("1 orders failed");
    stripe.loseAnswers(null);
    expect(billOf(customer)).toMatchObject({ status: "draft", auto_advance: false });
    await sendAgain();
    expect(billOf(customer)).toMatchObject({ status: "paid", auto_advance: true, amount_paid: 10_000 });
  });

  it("stops if its payment is declined, and shows where it can be paid", async () => {
    const { user_id, customer } = await subscriber("enterprise");
    stripe.declineCards(true);
    await overrun(user_id);
    stripe.declineCards(false);
    const bill = billOf(customer);
    expect(bill).toMatchObject({ status: "open", auto_advance: true });
    expect(await invoicesOf(user_id)).toMatchObject([{ status: "unpaid", checkout_url: bill.hosted_invoice_url }]);
    expect((await statusOf(user_id)).eligible).toBe(false);
    // Another attempt of Stripe fails too, and the amount stays owed.
    stripe.settleLate(bill, false);
    await deliverAll();
    expect(bill.status).toBe("open");
    stripe.payInvoice(bill);
    await deliverAll();
    expect(await invoicesOf(user_id)).toMatchObject([{ status: "paid", checkout_url: null }]);
    expect((await statusOf(user_id)).eligible).toBe(true);
  });

  it("stops if its invoice is written off, until the invoice is void", async () => {
    const { user_id, customer } = await subscriber("enterprise");
    stripe.payLate(true);
    await overrun(user_id);
    stripe.payLate(false);
    expect(await invoicesOf(user_id)).toMatchObject([{ status: "open" }]);
    expect((await statusOf(user_id)).eligible).toBe(true);
    stripe.writeOff(billOf(customer));
    await deliverAll();
    expect((await statusOf(user_id)).eligible).toBe(false);
    stripe.voidInvoice(billOf(customer).id);
    await deliverAll();
    expect(await invoicesOf(user_id)).toMatchObject([{ status: "void" }]);
    expect((await statusOf(user_id)).eligible).toBe(true);
  });

  it("on a given plan is invoiced by Stripe once the user is a customer there, otherwise by the operator", async () => {
    const [known, unknown] = [await fixture.account(), await fixture.account()];
    const { purchase } = await fixture.orderTopUp(known, 100);
    stripe.pay(purchase.checkout_url ?? "");
    await deliverAll();
    for (const user_id of [known, unknown]) await fixture.billing.subscribeWithoutPayment(user_id, "enterprise");
    await overrun(unknown);
    expect(await invoicesOf(unknown)).toMatchObject([
      { status: "open", collected_by: "operator", amount_cents: 10_000 },
    ]);
    // Stripe has no card to charge, because a top-up saves none. The user pays on its page.
    await overrun(known);
    const [owed] = await invoicesOf(known);
    expect(owed).toMatchObject({ status: "unpaid", collected_by: "stripe", amount_cents: 10_000 });
    expect(owed?.checkout_url).toMatch(/^https:/);
  });

  it("leaves a clean audit", async () => {
    expect((await fixture.ledger.audit()).violations).toEqual([]);
  });
});
