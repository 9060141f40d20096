import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";
import { type StripeEvent, startStripe, stripeSettings } from "../support/stripe.ts";

// contract 5: payments through a local fake of Stripe. Events arrive in any order and may repeat.

let now = "2026-01-31T10:00:00.000Z";
let stripe: Awaited<ReturnType<typeof startStripe>>;
let service: Service;
beforeAll(async () => {
  stripe = await startStripe({ now: () => now });
  service = await startService({
    env: stripeSettings(stripe, now),
  });
});
afterAll(async () => {
  await service.stop();
  stripe.stop();
});

const deliver = async (...events: StripeEvent[]) => {
  for (const event of events) expect((await stripe.deliver(service.url, event)).status).toBe(200);
};
const deliverAll = () => deliver(...stripe.takeEvents());
const balance = async (user: Client) => (await user.get("/api/v1/users/me")).body.balance;
const purchase = (user: Client, amount_cents = 1_000) => user.post("/api/v1/billing/purchase", { amount_cents });
const subscribe = (user: Client, plan_id = "starter") => user.post("/api/v1/billing/subscription", { plan_id });
const subscriptionOf = async (user: Client) => (await user.get("/api/v1/billing/subscription")).body;
const setClock = async (instant: string) => {
  now = instant;
  expect((await service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
};

/** A user who has bought for ten dollars: 6,250,000 tokens. */
async function buyer() {
  const user = await service.newUser({ trial: false });
  const { body } = await purchase(user);
  const session = stripe.pay(body.checkout_url);
  await deliverAll();
  return { user, purchase_id: body.id, payment_intent: session.payment_intent ?? "" };
}

describe("a top-up through Stripe", () => {
  it("is pending with a checkout page until Stripe reports the payment, and then grants once", async () => {
    const user = await service.newUser({ trial: false });
    const { status, body } = await purchase(user);
    expect(status).toBe(201);
    expect(body).toMatchObject({ status: "pending", amount_cents: 1_000, tokens: 6_250_000, bucket_id: null });
    expect(body.checkout_url).toMatch(/^https:/);
    expect((await balance(user)).posted).toBe(0);
    stripe.pay(body.checkout_url);
    const events = stripe.takeEvents();
    await deliver(...events, ...events, ...events);
    expect(await balance(user)).toMatchObject({ posted: 6_250_000, debt: 0 });
    const { body: paid } = await user.get(`/api/v1/billing/purchases/${body.id}`);
    expect(paid).toMatchObject({ status: "succeeded" });
    expect(paid.bucket_id).not.toBeNull();
  });

  it("is in the list of all payments with Stripe's receipt, and without one while Stripe does not answer", async () => {
    const { user, purchase_id, payment_intent } = await buyer();
    const { body } = await user.get("/api/v1/billing/payments");
    expect(body.payments).toMatchObject([
      { id: purchase_id, purpose: "top_up", status: "succeeded", amount_cents: 1_000, paid_cents: 1_000 },
    ]);
    const receipt = async (client = user) => client.get(`/api/v1/billing/payments/${purchase_id}`);
    expect((await receipt()).body.receipt_url).toBe(`https://pay.stripe.com/receipts/${payment_intent}`);
    stripe.answerWith(/charges/, { status: 500, body: "{}" });
    expect((await receipt()).body).toMatchObject({ status: "succeeded", receipt_url: null });
    stripe.answerWith(null);
    expect((await receipt(await service.newUser({ trial: false }))).status).toBe(404);
  });

  it("is not touched by objects of another program that uses the same names in its metadata", async () => {
    const metadata = { purser_payment_id: "order 7", purser_subscription_id: "order 8" };
    const about = (type: string) => ({ id: `evt_foreign_${type}`, type, data: { object: { id: "x_1", metadata } } });
    const types = ["checkout.session.expired", "invoice.voided", "customer.subscription.deleted"];
    await deliver(...types.map(about));
  });

  it("redirects to the caller's address afterwards", async () => {
    const user = await service.newUser({ trial: false });
    const urls = { success_url: "https://shop.example/thanks", cancel_url: "https://shop.example/back" };
    const top_up = await user.post("/api/v1/billing/purchase", { amount_cents: 100, ...urls });
    expect(stripe.sessionAt(top_up.body.checkout_url)).toMatchObject({ mode: "payment", amount_total: 100, ...urls });
    const plan = await user.post("/api/v1/billing/subscription", { plan_id: "pro", ...urls });
    expect(stripe.sessionAt(plan.body.checkout_url)).toMatchObject({
      mode: "subscription",
      amount_total: 8900,
      ...urls,
    });
  });

  it("fails when its checkout expires, and an event with a forged or missing signature grants nothing", async () => {
    const user = await service.newUser({ trial: false });
    const { body } = await purchase(user);
    stripe.pay(body.checkout_url);
    const [paid] = stripe.takeEvents();
    if (paid === undefined) throw new Error("no event");
    const forged = await stripe.deliver(service.url, paid, "whsec_other");
    expect(forged.status).toBe(400);
    expect((await forged.json()).error).toMatchObject({ code: "invalid_value", param: "Stripe-Signature" });
    const bare = await fetch(`${service.url}/api/v1/billing/stripe/webhook`, {
      method: "POST",
      body: "{}",
      headers: { "Content-Type": "application/json" },
    });
    expect(bare.status).toBe(400);
    expect((await balance(user)).posted).toBe(0);

    const { body: second } = await purchase(user);
    stripe.expire(second.checkout_url);
    await deliverAll();
    expect((await user.get(`/api/v1/billing/purchases/${second.id}`)).body.status).toBe("failed");
  });

  it("is not granted by an event that Stripe's API does not confirm", async () => {
    const user = await service.newUser({ trial: false });
    const { body } = await purchase(user);
    const session = stripe.sessionAt(body.checkout_url);
    await deliver({
      id: "evt_lie",
      type: "checkout.session.completed",
      data: { object: { ...session, payment_status: "paid" } },
    });
    expect((await balance(user)).posted).toBe(0);
  });

  it("is taken back by refunds, cumulative, replayed and out of order, once each (eliza#10920, #11155)", async () => {
    const { user, payment_intent, purchase_id } = await buyer();
    stripe.refund(payment_intent, 300);
    stripe.refund(payment_intent, 200);
    const [first, second] = stripe.takeEvents();
    if (first === undefined || second === undefined) throw new Error("no events");
    await deliver(second, first, second, first);
    expect((await balance(user)).posted).toBe(6_250_000 - 500 * 6_250);
    stripe.refund(payment_intent, 500);
    await deliverAll();
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
    expect((await user.get(`/api/v1/billing/purchases/${purchase_id}`)).body.status).toBe("refunded");
  });

  it("that is refunded before the event of its payment grants nothing in total", async () => {
    const user = await service.newUser({ trial: false });
    const { body } = await purchase(user);
    const session = stripe.pay(body.checkout_url);
    const paid = stripe.takeEvents();
    stripe.refund(session.payment_intent ?? "", 1_000);
    await deliver(...stripe.takeEvents(), ...paid);
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
  });

  it("whose refund fails at the bank is granted again", async () => {
    const { user, payment_intent, purchase_id } = await buyer();
    stripe.refund(payment_intent, 100);
    stripe.refund(payment_intent, 200);
    const failing = stripe.refund(payment_intent, 700);
    const made = stripe.takeEvents();
    await deliver(...made);
    expect((await balance(user)).posted).toBe(0);
    stripe.failRefund(failing);
    const failed = stripe.takeEvents();
    await deliver(...failed, ...made, ...failed);
    expect(await balance(user)).toMatchObject({ posted: 6_250_000 - 300 * 6_250, debt: 0 });
    expect((await user.get(`/api/v1/billing/purchases/${purchase_id}`)).body).toMatchObject({
      status: "succeeded",
      refunded_cents: 300,
    });
  });

  const refundOf = (id: string) => service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "unhappy" });
  const refundsOf = (payment_intent: string) =>
    stripe.requests.filter(({ method, path, form }) => {
      return method === "POST" && path === "/v1/refunds" && form.payment_intent === payment_intent;
    });

  it("that two operators refund at once is refunded once, with one act in the log, and the webhook changes nothing", async () => {
    const { user, payment_intent, purchase_id } = await buyer();
    const answers = await Promise.all([refundOf(purchase_id), refundOf(purchase_id)]);
    for (const { status, body } of answers) {
      if (status === 200) expect(body).toMatchObject({ status: "refunded", refunded_cents: 1_000 });
      else expect(body.error.code).toBe("purchase_not_refundable");
    }
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    await deliverAll();
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
    expect(refundsOf(payment_intent)).toHaveLength(1);
    const { acts } = (await service.admin.get(`/api/v1/admin/acts?user_id=${user.user_id}&what=purchase.refund`)).body;
    const states = acts.map(({ after }: { after: { state: string } }) => after.state);
    expect(states.filter((state: string) => state === "refunded")).toHaveLength(1);
    expect(states.filter((state: string) => state !== "requested")).toHaveLength(1);
  });

  it("that was partly refunded at Stripe: the operator refunds the rest, also if an answer is lost", async () => {
    const { user, payment_intent, purchase_id } = await buyer();
    stripe.refund(payment_intent, 300);
    await deliverAll();
    stripe.loseAnswers(/^POST \/v1\/refunds/);
    const lost = await refundOf(purchase_id);
    expect(lost.body.error.message).toContain("did not confirm the refund");
    stripe.loseAnswers(null);
    expect((await refundOf(purchase_id)).body).toMatchObject({ status: "refunded", refunded_cents: 1_000 });
    await deliverAll();
    expect(refundsOf(payment_intent).map(({ form }) => form.amount)).toEqual(["700"]);
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
  });

  it("whose bucket was closed before its refund leaves no debt, and a later failure of the refund returns no token", async () => {
    const { user, payment_intent, purchase_id } = await buyer();
    const { bucket_id } = (await user.get(`/api/v1/billing/purchases/${purchase_id}`)).body;
    const path = `/api/v1/admin/users/${user.user_id}/buckets/${bucket_id}/close`;
    expect((await service.admin.post(path, { reason: "error" })).body).toMatchObject({ taken_tokens: 6_250_000 });
    expect((await refundOf(purchase_id)).status).toBe(200);
    await deliverAll();
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
    stripe.failRefund(stripe.refundsOf(payment_intent)[0] as never);
    await deliverAll();
    expect(await balance(user)).toMatchObject({ posted: 0, debt: 0 });
    // The operator has the money again, so it can be refunded again.
    expect((await refundOf(purchase_id)).body).toMatchObject({ status: "refunded", refunded_cents: 1_000 });
  });

  it("with an inquiry keeps its tokens, unless the inquiry becomes a dispute", async () => {
    const { user, payment_intent } = await buyer();
    const inquiry = stripe.dispute(payment_intent, "warning_needs_response");
    await deliverAll();
    expect((await balance(user)).posted).toBe(6_250_000);
    stripe.closeDispute(inquiry.id, "warning_closed");
    await deliverAll();
    expect((await balance(user)).posted).toBe(6_250_000);
    const second = stripe.dispute(payment_intent, "warning_needs_response");
    stripe.escalate(second);
    await deliverAll();
    expect((await balance(user)).posted).toBe(0);
    stripe.closeDispute(second.id, "won");
    await deliverAll();
    expect(await balance(user)).toMatchObject({ posted: 6_250_000, debt: 0 });
  });

  it("that is disputed is taken back, and granted again if the dispute is won", async () => {
    const { user, payment_intent } = await buyer();
    const dispute = stripe.dispute(payment_intent);
    await deliverAll();
    expect((await balance(user)).posted).toBe(0);
    stripe.closeDispute(dispute.id, "won");
    const events = stripe.takeEvents();
    await deliver(...events, ...events);
    expect(await balance(user)).toMatchObject({ posted: 6_250_000, debt: 0 });
  });
});

describe("an automatic top-up through Stripe", () => {
  it("gives a notice for each pause, also for several of one payment (contract 5.9.3)", async () => {
    const user = await service.newUser({ trial: false, tokens: 10_000 });
    const set = (settings: object) => user.request("PUT", "/api/v1/billing/auto-topup", settings);
    await set({ threshold_tokens: 1, amount_cents: 100, monthly_cap_cents: 100 });
    const { customer } = stripe.pay((await purchase(user)).body.checkout_url);
    await deliverAll();
    await set({ threshold_tokens: 100_000_000 });
    await setClock(now);
    await deliverAll();
    const [bill] = stripe.invoices().filter((each) => each.customer === customer);
    const payment_intent = bill?.payments.data[0]?.payment.payment_intent ?? "";
    for (const [pauses, giveBack] of [
      () => stripe.refund(payment_intent, 10),
      () => stripe.refund(payment_intent, 10),
      () => stripe.dispute(payment_intent),
    ].entries()) {
      expect((await set({})).body).toMatchObject({ status: "cap_reached", paused_reason: null });
      giveBack();
      const events = stripe.takeEvents();
      await deliver(...events, ...events);
      expect((await user.get("/api/v1/billing/auto-topup")).body.paused_reason).toBe("payment_returned");
      const { notices } = (await user.get("/api/v1/notices?event=auto_topup.paused")).body;
      expect(notices).toHaveLength(pauses + 1);
    }
  });
});

describe("a subscription through Stripe", () => {
  it("begins with its first paid invoice and is granted once a period, at Stripe's periods", async () => {
    await setClock("2026-01-31T12:00:00.000Z");
    const user = await service.newUser({ trial: false });
    const { body } = await subscribe(user);
    expect(body.checkout_url).toMatch(/^https:/);
    expect((await balance(user)).posted).toBe(0);
    const session = stripe.pay(body.checkout_url);
    const begun = stripe.takeEvents();
    await deliver(...begun.toReversed(), ...begun);
    expect(await subscriptionOf(user)).toMatchObject({
      plan_id: "starter",
      status: "active",
      current_period_end: "2026-02-28T12:00:00.000Z",
    });
    expect((await balance(user)).posted).toBe(18_000_000);

    await setClock("2026-02-28T12:00:00.000Z");
    stripe.renew(session.subscription ?? "");
    const renewed = stripe.takeEvents();
    await deliver(...renewed, ...renewed);
    expect((await balance(user)).posted).toBe(36_000_000);
  });

  it("that is upgraded at once pays the difference and gets the rest of the period's tokens; a declined card changes nothing", async () => {
    const user = await service.newUser({ trial: false });
    stripe.pay((await subscribe(user)).body.checkout_url);
    await deliverAll();
    stripe.declineCards(true);
    const refused = await subscribe(user, "pro");
    expect(refused.status).toBe(402);
    expect(refused.body.error.code).toBe("payment_failed");
    expect((await subscriptionOf(user)).plan_id).toBe("starter");
    // No open payment remains that could be collected later.
    expect(stripe.invoices().filter(({ status }) => status === "open" || status === "draft")).toEqual([]);
    stripe.declineCards(false);
    expect((await subscribe(user, "pro")).status).toBe(200);
    await deliverAll();
    expect((await subscriptionOf(user)).plan_id).toBe("pro");
    expect((await balance(user)).posted).toBe(55_000_000);
  });

  it("that is cancelled ends with its period", async () => {
    const user = await service.newUser({ trial: false });
    const session = stripe.pay((await subscribe(user)).body.checkout_url);
    await deliverAll();
    const cancelled = await user.request("DELETE", "/api/v1/billing/subscription");
    expect(cancelled.body).toMatchObject({ cancel_at_period_end: true });
    stripe.renew(session.subscription ?? "");
    await deliverAll();
    expect((await subscriptionOf(user)).status).not.toBe("active");
    expect((await balance(user)).posted).toBe(18_000_000);
  });

  it("is in the log of operators' acts only when it was changed (contract 8.9.1)", async () => {
    const user = await service.newUser({ trial: false });
    stripe.pay((await subscribe(user, "pro")).body.checkout_url);
    await deliverAll();
    const path = `/api/v1/admin/users/${user.user_id}/subscription`;
    const downgrade = () => service.admin.post(path, { plan_id: "starter" });
    const cancel = () => service.admin.request("DELETE", `${path}?reason=asked`);
    const acts = async () => {
      const { body } = await service.admin.get(`/api/v1/admin/acts?user_id=${user.user_id}&limit=3`);
      return body.acts.map(({ what, before }: { what: string; before: unknown }) => [what, before]);
    };
    const [created] = await acts();
    stripe.loseAnswers(/\/v1\/subscriptions/);
    const failed = await Promise.all([downgrade(), cancel()]);
    stripe.loseAnswers(null);
    expect(failed.map(({ status }) => status)).toEqual([502, 502]);
    expect(await acts()).toEqual([created]);
    expect((await downgrade()).body).toMatchObject({ plan_id: "pro", pending_plan_id: "starter" });
    expect((await cancel()).body).toMatchObject({ cancel_at_period_end: true });
    const before = { plan_id: "pro", status: "active" };
    expect(await acts()).toEqual([
      ["subscription.cancel", { ...before, cancel_at_period_end: false }],
      ["subscription.set", before],
      created,
    ]);
  });

  it("leaves a clean audit", async () => {
    const { body } = await service.admin.get("/api/v1/admin/audit");
    expect(body.violations).toEqual([]);
  });
});
