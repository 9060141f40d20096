import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { billingErrors } from "../../src/account/billing/errors.ts";
import type { PaymentEvent } from "../../src/account/billing/payments.types.ts";
import { errors } from "../../src/kernel/errors.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addMonths } from "../../src/platform/lib/clock.ts";
import { createBillingFixture } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let db: Db;
let fixture: ReturnType<typeof createBillingFixture>;
let user_id: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  await db.query({ text: "truncate payment_event" });
  fixture = createBillingFixture(db);
  user_id = await fixture.account();
});

const apply = (event: PaymentEvent) => fixture.billing.applyPaymentEvent(event);
const applyAll = (...events: PaymentEvent[]) => fixture.applyAll(events);
const refunded = (...refund: Parameters<typeof fixture.refunded>) => fixture.refunded(...refund);
const expectCleanBooks = async () => expect((await fixture.ledger.audit()).violations).toEqual([]);

/** Stripe may send the event of a payment before its answer about the checkout. */
const payFirstPeriod = ({ subscription_id }: { subscription_id: string }) => {
  const period = { period_start: fixture.clock.now(), period_end: addMonths(fixture.clock.now(), 1) };
  const about = { subscription_id, subscription_reference: "sub", plan_id: "starter", ...period };
  return apply({ ...fixture.named(), kind: "period_paid", ...about, reference: subscription_id, amount_cents: 2900 });
};

describe("a subscription that its provider runs", () => {
  it("is incomplete and no plan until its first period is paid, and the open checkout page is offered again", async () => {
    const opened = await fixture.billing.subscribe(user_id, "starter");
    expect(opened).toMatchObject({
      created: true,
      subscription: { status: "incomplete", plan_id: "starter", checkout_url: "https://pay.example/page" },
    });
    expect(await fixture.billing.subscribe(user_id, "starter")).toEqual({ ...opened, created: false });
    await expect(fixture.billing.overage.enable(user_id)).rejects.toMatchObject({
      code: "overage_requires_subscription",
    });
    expect((await fixture.balance(user_id)).posted).toBe(0);
  });

  it("that was paid twice keeps the first one, grants both periods and ends the other at the provider", async () => {
    const abandoned = await fixture.orderSubscription(user_id, "starter");
    const chosen = await fixture.orderSubscription(user_id, "professional");
    await applyAll(chosen.periodPaid(1), abandoned.periodPaid(1));
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "professional", status: "active" });
    expect((await fixture.balance(user_id)).posted).toBe(48_000_000);
    await fixture.sweep();
    const ended = fixture.payments.asked.filter(({ what }) => what === "endSubscription").map(({ order }) => order);
    expect(ended).toMatchObject([{ subscription_id: abandoned.subscription_id }]);
  });

  it("is renewed by payments, not by the service's clock", async () => {
    const { periodPaid } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    fixture.clock.put("2026-03-01T00:00:00.000Z");
    await fixture.sweep();
    expect((await fixture.balance(user_id)).posted).toBe(18_000_000);
    await apply(periodPaid(2));
    expect((await fixture.balance(user_id)).posted).toBe(36_000_000);
  });

  it("that is past due keeps its tokens but loses its overage until the period is paid", async () => {
    const { periodPaid, ...ids } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    await fixture.billing.overage.enable(user_id);
    const unpaid = { ...ids, kind: "subscription_past_due" as const, period_start: "2026-02-28T00:00:00.000Z" };
    await apply({ ...fixture.named(), ...unpaid });
    expect(await fixture.billing.overage.status(user_id)).toMatchObject({ enabled: true, eligible: false });
    expect((await fixture.ledger.overage(user_id)).cap_tokens).toBeNull();
    expect((await fixture.billing.subscription(user_id)).status).toBe("past_due");
    const past_due = { code: "subscription_past_due" };
    await expect(fixture.billing.overage.enable(user_id)).rejects.toMatchObject(past_due);
    await expect(fixture.billing.overage.setCap(user_id, 1_000)).rejects.toMatchObject(past_due);
    await apply(periodPaid(2));
    expect((await fixture.ledger.overage(user_id)).cap_tokens).toBe(18_000_000);
  });

  it("is not made past due by a late event of a paid period", async () => {
    const { periodPaid, ...ids } = await fixture.orderSubscription(user_id, "starter");
    const second = { ...ids, kind: "subscription_past_due" as const, period_start: "2026-02-28T00:00:00.000Z" };
    await applyAll(periodPaid(1), { ...fixture.named(), ...second });
    await apply(periodPaid(2));
    expect(await applyAll({ ...fixture.named(), ...second })).toEqual(["ignored"]);
    expect((await fixture.billing.subscription(user_id)).status).toBe("active");
    // The same for a period before a paid one.
    await apply(periodPaid(3));
    expect(await applyAll({ ...fixture.named(), ...second })).toEqual(["ignored"]);
    expect((await fixture.billing.subscription(user_id)).status).toBe("active");
  });

  it("whose checkout fails to open stays if it was paid meanwhile", async () => {
    fixture.payments.subscribe = async (order) => {
      await payFirstPeriod(order);
      throw errors.upstream("The answer was lost.");
    };
    await expect(fixture.billing.subscribe(user_id, "starter")).rejects.toMatchObject({ code: "upstream_error" });
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ status: "active", plan_id: "starter" });
    expect((await fixture.balance(user_id)).posted).toBe(18_000_000);
  });

  it("that is paid while its checkout is being opened offers no checkout page", async () => {
    const { subscribe } = fixture.payments;
    fixture.payments.subscribe = async (order) => {
      await payFirstPeriod(order);
      return subscribe(order);
    };
    const { subscription } = await fixture.billing.subscribe(user_id, "starter");
    expect(subscription.status).toBe("active");
    expect(subscription.checkout_url).toBeUndefined();
  });

  it("that is abandoned while its checkout is being opened has the checkout closed at the provider", async () => {
    const { subscribe } = fixture.payments;
    fixture.payments.subscribe = async (order) => {
      await fixture.billing.cancelSubscription(user_id);
      return subscribe(order);
    };
    await fixture.billing.subscribe(user_id, "starter");
    expect((await fixture.billing.subscription(user_id)).status).toBe("none");
    await fixture.sweep();
    expect(fixture.payments.asked.at(-1)).toMatchObject({
      what: "endSubscription",
      order: { checkout_reference: "checkout-1" },
    });
  });

  it("whose node died while it opened the checkout can be ordered again after two minutes of real time", async () => {
    const { subscribe } = fixture.payments;
    await new Promise<void>((opening) => {
      fixture.payments.subscribe = () => new Promise(() => opening());
      void fixture.billing.subscribe(user_id, "starter");
    });
    fixture.payments.subscribe = subscribe;
    // The domain's clock does not count here, because it may stop or jump.
    fixture.clock.put("2026-02-10T00:00:00.000Z");
    await expect(fixture.billing.subscribe(user_id, "starter")).rejects.toMatchObject({
      code: "plan_change_in_flight",
    });
    await db.query({ text: "update subscription set opening_until = now() - interval '1 second'" });
    const { subscription } = await fixture.billing.subscribe(user_id, "starter");
    expect(subscription).toMatchObject({ status: "incomplete", checkout_url: "https://pay.example/page" });
  });

  it("tells the provider of the new price once an upgrade is paid, and not before", async () => {
    const { periodPaid } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    fixture.payments.answers.changePlan = errors.upstream("The payment provider did not take the order.");
    await expect(fixture.billing.subscribe(user_id, "pro")).rejects.toMatchObject({ code: "upstream_error" });
    const changes = () =>
      fixture.payments.asked
        .filter(({ what }) => what === "changePlan")
        .map(({ order }) => order as { payment_id: string; amount_cents: number; plan: { id: string } });
    const [{ payment_id, amount_cents } = { payment_id: "", amount_cents: 0 }] = changes();
    await apply({ ...fixture.named(), kind: "paid", payment_id, reference: `money-${payment_id}`, amount_cents });
    delete fixture.payments.answers.changePlan;
    await db.query({ text: "update payment set send_at = now() where send_at is not null" });
    await fixture.sweep();
    await fixture.sweep();
    expect(changes()).toMatchObject([
      { payment_id, amount_cents, when: "now" },
      { when: "period_end", plan: { id: "pro" } },
    ]);
    expect((await fixture.balance(user_id)).posted).toBe(55_000_000);
  });

  it("upgrades when the difference is paid, not before; a declined card changes nothing", async () => {
    const { periodPaid } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    fixture.payments.answers.changePlan = billingErrors.paymentFailed();
    await expect(fixture.billing.subscribe(user_id, "pro")).rejects.toMatchObject({ code: "payment_failed" });
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "starter" });
    delete fixture.payments.answers.changePlan;
    const { subscription } = await fixture.billing.subscribe(user_id, "pro");
    expect(subscription.plan_id).toBe("starter");
    await expect(fixture.billing.subscribe(user_id, "enterprise")).rejects.toMatchObject({
      code: "plan_change_in_flight",
    });
    const order = fixture.payments.asked.at(-1)?.order as { payment_id: string; amount_cents: number } | undefined;
    const { payment_id = "", amount_cents = 0 } = order ?? {};
    expect(amount_cents).toBe(6000);
    await apply({ ...fixture.named(), kind: "paid", payment_id, reference: "money-upgrade", amount_cents });
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "pro" });
    expect((await fixture.balance(user_id)).posted).toBe(55_000_000);
    await apply(refunded("money-upgrade", 6000));
    expect((await fixture.balance(user_id)).posted).toBe(18_000_000);
    await expectCleanBooks();
  });

  it("sends downgrades and cancellations to the provider before they take effect", async () => {
    const { periodPaid } = await fixture.orderSubscription(user_id, "pro");
    await apply(periodPaid(1));
    fixture.payments.answers.changePlan = errors.upstream("The payment provider did not take the order.");
    await expect(fixture.billing.subscribe(user_id, "starter")).rejects.toMatchObject({ shape: { status: 502 } });
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ pending_plan_id: null });
    delete fixture.payments.answers.changePlan;
    await fixture.billing.subscribe(user_id, "starter");
    await fixture.billing.cancelSubscription(user_id);
    await fixture.billing.subscribe(user_id, "pro");
    expect(fixture.payments.asked.slice(-4)).toMatchObject([
      { what: "changePlan", order: { plan: { id: "starter" }, when: "period_end" } },
      { what: "setCancelAtPeriodEnd", order: { cancel: true } },
      { what: "setCancelAtPeriodEnd", order: { cancel: false } },
      { what: "changePlan", order: { plan: { id: "pro" }, when: "period_end" } },
    ]);
    expect(await fixture.billing.subscription(user_id)).toMatchObject({
      cancel_at_period_end: false,
      pending_plan_id: null,
    });
    await apply(periodPaid(2, "starter"));
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "starter" });
  });

  it("is ended at the provider when its user is erased, once the erasure is committed", async () => {
    const { periodPaid, subscription_reference } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    await db.transaction((tx) => fixture.billing.forgetUser(tx, user_id));
    fixture.payments.answers.endSubscription = errors.upstream("down");
    await expect(fixture.sweep()).rejects.toThrow("1 orders failed");
    delete fixture.payments.answers.endSubscription;
    await fixture.sweep();
    await fixture.sweep();
    const ended = fixture.payments.asked.filter(({ what }) => what === "endSubscription");
    expect(ended).toHaveLength(2);
    expect(ended[1]?.order).toMatchObject({ subscription_reference });
  });

  it("keeps a downgrade that waits when a period of the present plan is paid", async () => {
    const { periodPaid } = await fixture.orderSubscription(user_id, "pro");
    await apply(periodPaid(1));
    await fixture.billing.subscribe(user_id, "starter");
    await apply(periodPaid(2));
    expect(await fixture.billing.subscription(user_id)).toMatchObject({ plan_id: "pro", pending_plan_id: "starter" });
  });

  it("reports its renewals in their transaction, and does not report its start", async () => {
    const notified: unknown[] = [];
    fixture.calls.notify = async (renewal) => void notified.push(renewal);
    const { periodPaid } = await fixture.orderSubscription(user_id, "starter");
    const second = periodPaid(2);
    await applyAll(periodPaid(1), second, second);
    const period_start = "2026-02-28T00:00:00.000Z";
    expect(notified).toEqual([
      { user_id, plan_id: "starter", period_start, period_end: addMonths("2026-01-31T00:00:00.000Z", 2) },
    ]);
  });
});
