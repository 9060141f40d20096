import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { USER_ROWS } from "../../src/kernel/constants.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startStripe, stripeSettings } from "../support/stripe.ts";

// contract 5.6.1: a user, or a stolen key, does not open checkout pages without end.

const SUBSCRIPTION = "/api/v1/billing/subscription";
let now = "2026-01-31T10:00:00.000Z";
let stripe: Awaited<ReturnType<typeof startStripe>>;
let service: Service;
let user: Client;
beforeAll(async () => {
  stripe = await startStripe({ now: () => now });
  service = await startService({
    env: stripeSettings(stripe, now),
  });
});
beforeEach(async () => {
  user = await service.newUser({ trial: false });
});
afterAll(async () => {
  await service.stop();
  stripe.stop();
});

const order = () => user.post("/api/v1/billing/purchase", { amount_cents: 100 });
const choose = (plan_id: string) => user.post(SUBSCRIPTION, { plan_id });
const deliver = async () => {
  for (const event of stripe.takeEvents()) expect((await stripe.deliver(service.url, event)).status).toBe(200);
};
const checkouts = () => stripe.requests.filter(({ path }) => path === "/v1/checkout/sessions").length;
/** Orders until only `left` more are allowed. Returns their pages. */
const fill = async (left: number): Promise<string[]> => {
  const pages: string[] = [];
  for (let count = left; count < USER_ROWS.unpaid_orders; count += 1) {
    const { status, body } = await order();
    expect(status).toBe(201);
    pages.push(body.checkout_url);
  }
  return pages;
};
const LIMIT = {
  status: 409,
  body: {
    error: {
      code: "order_limit_reached",
      message:
        "You have 50 purchases and plan changes that are not paid: open ones of the last 24 hours, failed ones of the last hour. Pay one at its checkout_url, or wait.",
    },
  },
};

describe("a user with 50 unpaid orders", () => {
  it("opens no more checkout pages, also of two at once, until one is paid", async () => {
    const [page] = await fill(1);
    const before = checkouts();
    const both = await Promise.all([order(), order()]);
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect(both.find(({ status }) => status === 409)).toMatchObject(LIMIT);
    expect(await choose("starter")).toMatchObject(LIMIT);
    for (const [path, body] of [
      ["purchase", { amount_cents: 100 }] as const,
      ["subscription", { plan_id: "starter" }] as const,
    ])
      expect(await user.post(`/api/v1/billing/${path}/preview`, body)).toMatchObject(LIMIT);
    expect(checkouts()).toBe(before + 1);
    stripe.pay(page ?? "");
    await deliver();
    expect((await choose("starter")).status).toBe(201);
    expect(await order()).toMatchObject(LIMIT);
  });

  it("orders again 24 hours later, when Stripe has closed the pages, and their purchases have failed", async () => {
    const [page] = await fill(0);
    stripe.expire(page ?? "");
    await deliver();
    expect(await order()).toMatchObject(LIMIT);
    const { purchases } = (await user.get("/api/v1/billing/purchases?limit=100")).body;
    expect(purchases.map(({ status }: { status: string }) => status).sort()).toEqual([
      "failed",
      ...Array(USER_ROWS.unpaid_orders - 1).fill("pending"),
    ]);
    now = "2026-02-01T10:00:00.000Z";
    await service.admin.request("PUT", "/api/v1/admin/clock", { now });
    expect((await order()).status).toBe(201);
  });

  it("has chosen plans to and fro, or chosen and cancelled one, without paying", async () => {
    for (let count = 0; count < USER_ROWS.unpaid_orders; count += 2) {
      expect((await choose("starter")).status).toBe(201);
      if (count % 4 === 0) expect((await choose("pro")).status).toBe(201);
      else expect((await user.request("DELETE", SUBSCRIPTION)).status).toBe(200);
      if (count % 4 !== 0) expect((await choose("pro")).status).toBe(201);
    }
    expect(await choose("starter")).toMatchObject(LIMIT);
    expect((await choose("pro")).body).toMatchObject({ plan_id: "pro", status: "incomplete" });
  });

  it("still gets a plan from the operator, and the orders of others are not counted", async () => {
    await fill(0);
    const path = `/api/v1/admin/users/${user.user_id}/subscription`;
    expect((await service.admin.post(path, { plan_id: "starter" })).status).toBe(201);
    user = await service.newUser({ trial: false });
    expect((await order()).status).toBe(201);
  });

  it("orders again an hour later if they failed because Stripe rejected them", async () => {
    const rejected = '{"error": {"type": "invalid_request_error", "message": "Your account cannot make charges."}}';
    stripe.answerWith(/^POST \/v1\/checkout\/sessions$/, { status: 400, body: rejected });
    for (let count = 0; count < USER_ROWS.unpaid_orders; count += 1) {
      const { status } = count % 10 === 0 ? await choose("starter") : await order();
      expect(status).toBe(502);
    }
    expect(await order()).toMatchObject(LIMIT);
    stripe.answerWith(null);
    expect(await choose("starter")).toMatchObject(LIMIT);
    now = new Date(Date.parse(now) + 3_600_000).toISOString();
    await service.admin.request("PUT", "/api/v1/admin/clock", { now });
    expect((await choose("starter")).status).toBe(201);
    await fill(1);
    expect(await order()).toMatchObject(LIMIT);
  });

  it("has tried to upgrade with a card that is declined", async () => {
    stripe.pay((await choose("starter")).body.checkout_url);
    await deliver();
    await fill(2);
    stripe.declineCards(true);
    const tries = [await choose("pro"), await choose("pro"), await choose("pro")];
    stripe.declineCards(false);
    expect(tries.map(({ status }) => status)).toEqual([402, 402, 409]);
    expect(tries.at(-1)).toMatchObject(LIMIT);
  });
});
