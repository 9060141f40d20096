import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { expectCleanAudit } from "../support/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startStripe, stripeSettings } from "../support/stripe.ts";
import type { Subscription } from "../support/stripe-objects.ts";

// Stripe reports a payment. The order decides its right amount.

let now = "2026-01-31T10:00:00.000Z";
let stripe: Awaited<ReturnType<typeof startStripe>>;
let service: Service;
let user: Client;
beforeAll(async () => {
  stripe = await startStripe({ now: () => now });
  service = await startService({
    config: {},
    env: stripeSettings(stripe, now),
  });
});
beforeEach(async () => {
  user = await service.newUser({ trial: false });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  stripe.stop();
});

const deliverAll = async () => {
  for (const event of stripe.takeEvents()) expect((await stripe.deliver(service.url, event)).status).toBe(200);
};
const posted = async () => (await user.get("/api/v1/users/me")).body.balance.posted;
const buy = async () => (await user.post("/api/v1/billing/purchase", { amount_cents: 100_000 })).body;
const purchaseNow = async (id: string) => (await user.get(`/api/v1/billing/purchases/${id}`)).body;
const mismatches = async () => {
  const { purchases } = (await service.admin.get("/api/v1/admin/purchases?status=mismatch&limit=100")).body;
  return purchases.filter(({ user_id }: { user_id: string }) => user_id === user.user_id);
};

describe("a checkout session that is paid", () => {
  it.each<[string, { amount_total?: number; currency?: string }]>([
    ["with one cent", { amount_total: 1 }],
    ["with nothing", { amount_total: 0 }],
    ["in a currency that is worth less", { currency: "idr" }],
    ["with more than was ordered", { amount_total: 100_001 }],
  ])("%s grants nothing and is listed as a mismatch", async (_how, changes) => {
    const { id, checkout_url } = await buy();
    Object.assign(stripe.sessionAt(checkout_url), changes);
    stripe.pay(checkout_url);
    await deliverAll();
    expect(await posted()).toBe(0);
    expect(await purchaseNow(id)).toMatchObject({ status: "failed", bucket_id: null, checkout_url: null });
    const { amount_total = 100_000, currency = "usd" } = changes;
    expect(await mismatches()).toMatchObject([
      {
        id,
        status: "mismatch",
        purpose: "top_up",
        provider: "stripe",
        amount_cents: 100_000,
        currency: "usd",
        billed: { amount_cents: amount_total, currency },
        bucket_id: null,
      },
    ]);
  });

  it("with another amount takes no tokens back at its refund, and is then shown as refunded", async () => {
    const { id, checkout_url } = await buy();
    stripe.sessionAt(checkout_url).amount_total = 500;
    const { payment_intent } = stripe.pay(checkout_url);
    await deliverAll();
    stripe.refund(payment_intent ?? "", 500);
    await deliverAll();
    expect(await purchaseNow(id)).toMatchObject({ status: "refunded", refunded_cents: 500 });
    expect((await user.get("/api/v1/users/me")).body.balance).toMatchObject({ posted: 0, debt: 0 });
  });

  it("with the right amount is granted, also after a mismatch of the same order", async () => {
    const { id, checkout_url } = await buy();
    const session = stripe.sessionAt(checkout_url);
    session.amount_total = 500;
    stripe.pay(checkout_url);
    await deliverAll();
    session.amount_total = 100_000;
    session.currency = "USD";
    const event = {
      id: `evt_right_${id}`,
      type: "checkout.session.async_payment_succeeded",
      data: { object: session },
    };
    expect((await stripe.deliver(service.url, event)).status).toBe(200);
    expect(await posted()).toBe(100_000 * 6_250);
    expect((await purchaseNow(id)).status).toBe("succeeded");
    expect(await mismatches()).toEqual([]);
  });
});

describe("a subscription's invoice of another amount than the plan's price", () => {
  const subscribe = async () => (await user.post("/api/v1/billing/subscription", { plan_id: "pro" })).body;
  const subscriptionNow = async () => (await user.get("/api/v1/billing/subscription")).body;

  it("starts no subscription and grants nothing", async () => {
    const { checkout_url } = await subscribe();
    stripe.sessionAt(checkout_url).amount_total = 100;
    stripe.pay(checkout_url);
    await deliverAll();
    expect(await posted()).toBe(0);
    expect((await subscriptionNow()).status).toBe("incomplete");
    expect(await mismatches()).toMatchObject([
      { purpose: "period", amount_cents: 8_900, billed: { amount_cents: 100, currency: "usd" } },
    ]);
  });

  it("does not renew the subscription, which is past due until the right invoice is paid", async () => {
    const { checkout_url } = await subscribe();
    const { subscription } = stripe.pay(checkout_url);
    await deliverAll();
    const first = await posted();
    expect(first).toBeGreaterThan(0);
    const [item] = stripe.object<Subscription>(subscription ?? "").items.data;
    if (item === undefined) throw new Error("no item");
    item.price.unit_amount = 1;
    now = "2026-02-28T10:00:00.000Z";
    stripe.renew(subscription ?? "");
    await deliverAll();
    expect(await posted()).toBe(first);
    expect((await subscriptionNow()).status).toBe("past_due");
    expect(await mismatches()).toMatchObject([{ purpose: "period", billed: { amount_cents: 1 } }]);
  });
});

describe("a subscription's late invoice of a plan that PURSER_CONFIG no longer has", () => {
  const TINY = { id: "tiny", name: "Tiny", price_cents: 900, included_tokens: 1_000 };
  const SMALL = { id: "small", name: "Small", price_cents: 1_900, included_tokens: 3_000 };
  const LARGE = { id: "large", name: "Large", price_cents: 8_900, included_tokens: 9_000 };
  const offer = async (...plans: object[]) => {
    const config = plans.length === 0 ? {} : { plans };
    writeFileSync(join(service.database.data_dir, "purser.json"), JSON.stringify(config));
    expect((await service.admin.post("/api/v1/admin/reload")).status).toBe(200);
  };
  const choose = async (plan_id: string) => (await user.post("/api/v1/billing/subscription", { plan_id })).body;
  afterAll(() => offer());

  it("is a mismatch that the operator can see and refund, and later invoices renew the subscription", async () => {
    await offer(TINY, SMALL, LARGE);
    const { subscription } = stripe.pay((await choose("large")).checkout_url);
    await deliverAll();
    await choose("small");
    now = "2026-03-31T10:00:00.000Z";
    stripe.renew(subscription ?? "");
    const late = stripe.takeEvents();
    await choose("tiny");
    stripe.renew(subscription ?? "");
    await offer(TINY);
    await deliverAll();
    for (const event of [...late, ...late]) expect((await stripe.deliver(service.url, event)).status).toBe(200);
    expect(await posted()).toBe(10_000);
    const [mismatch, ...others] = await mismatches();
    expect([mismatch.purpose, mismatch.billed, others]).toEqual([
      "period",
      { amount_cents: 1_900, currency: "usd" },
      [],
    ]);
    expect((await user.get("/api/v1/billing/subscription")).body).toMatchObject({ plan_id: "tiny", status: "active" });
    const refund = await service.admin.post(`/api/v1/admin/purchases/${mismatch.id}/refund`, {
      reason: "no such plan",
    });
    expect([refund.status, refund.body.status]).toEqual([200, "mismatch"]);
    expect(await posted()).toBe(10_000);
  });
});

it("the operator's list has every purchase, by state and page by page, and other users cannot read it", async () => {
  const ids = [];
  for (let n = 0; n < 3; n += 1) ids.unshift((await buy()).id);
  const first = (await service.admin.get("/api/v1/admin/purchases?status=pending&limit=2")).body;
  expect(first.purchases.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
  const next = `/api/v1/admin/purchases?status=pending&limit=2&cursor=${first.next_cursor}`;
  expect((await service.admin.get(next)).body.purchases[0].id).toBe(ids[2]);
  for (const status of ["succeeded", "failed", "refunded", "mismatch"]) {
    const { purchases } = (await service.admin.get(`/api/v1/admin/purchases?status=${status}&limit=100`)).body;
    expect(purchases.every((each: { status: string }) => each.status === status)).toBe(true);
  }
  expect((await service.admin.get("/api/v1/admin/purchases?status=lost")).status).toBe(400);
  expect((await user.get("/api/v1/admin/purchases")).status).toBe(401);
});
