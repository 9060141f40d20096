import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { expectCleanAudit } from "../support/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startStripe, stripeSettings } from "../support/stripe.ts";
import type { Subscription } from "../support/stripe-objects.ts";

// Events and orders that arrive at Purser or at Stripe after their subscription or their user has ended.

const NOW = "2026-01-31T10:00:00.000Z";
const SUBSCRIPTION = "/api/v1/billing/subscription";
const STARTER = 18_000_000;

let stripe: Awaited<ReturnType<typeof startStripe>>;
let service: Service;
let db: Db;
let user: Client;
beforeAll(async () => {
  stripe = await startStripe({ now: () => NOW });
  service = await startService({
    env: stripeSettings(stripe, NOW),
  });
  db = await service.database.open();
});
beforeEach(async () => {
  user = await service.newUser({ trial: false });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await db.close();
  await service.stop();
  stripe.stop();
});

const deliver = async (events = stripe.takeEvents()) => {
  for (const event of events) expect((await stripe.deliver(service.url, event)).status).toBe(200);
};
const subscriptionOf = async () => (await user.get(SUBSCRIPTION)).body;
const choose = (plan_id: string) => user.post(SUBSCRIPTION, { plan_id });
const erase = async () =>
  expect((await service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`)).status).toBe(204);
/** Carries out everything that is due, also at Stripe. */
const sweep = async () =>
  expect((await service.admin.request("PUT", "/api/v1/admin/clock", { now: NOW })).status).toBe(200);
const postedTokens = async () => {
  const text = "select coalesce(sum(original), 0)::bigint as tokens from bucket where user_id = $1";
  return (await db.query<{ tokens: number }>({ text, values: [user.user_id] }))[0]?.tokens;
};
const stripeStatus = (id: string | null) => stripe.object<Subscription>(id ?? "").status;

describe("a subscription that ended before its first payment was reported", () => {
  it.each<[string, () => Promise<unknown>]>([
    ["because its user was erased", erase],
    ["because its user abandoned the checkout", () => user.request("DELETE", SUBSCRIPTION)],
    ["because another plan was chosen", () => choose("pro")],
  ])("%s stays ended, grants what was paid, and is ended at Stripe", async (_why, end) => {
    const session = stripe.pay((await choose("starter")).body.checkout_url);
    const paid = stripe.takeEvents();
    await end();
    await sweep();
    await deliver(paid);
    await sweep();
    expect(stripeStatus(session.subscription)).toBe("canceled");
    await deliver();
    expect(await postedTokens()).toBe(STARTER);
    const rows = await db.query<{ status: string; end_at_provider: boolean }>({
      text: "select status, end_at_provider from subscription where user_id = $1 order by id limit 1",
      values: [user.user_id],
    });
    expect(rows).toEqual([{ status: "ended", end_at_provider: false }]);
  });

  it("at Stripe does not become active if its events arrive in the other order", async () => {
    const session = stripe.pay((await choose("starter")).body.checkout_url);
    const paid = stripe.takeEvents();
    stripe.cancelSubscription(session.subscription ?? "");
    await deliver([...stripe.takeEvents(), ...paid]);
    await sweep();
    expect((await subscriptionOf()).status).toBe("none");
    expect(await postedTokens()).toBe(STARTER);
  });

  it("is ended at Stripe also if the paid amount is wrong and grants nothing", async () => {
    const { checkout_url } = (await choose("starter")).body;
    stripe.sessionAt(checkout_url).amount_total = 100;
    const session = stripe.pay(checkout_url);
    await user.request("DELETE", SUBSCRIPTION);
    await deliver();
    await sweep();
    expect(stripeStatus(session.subscription)).toBe("canceled");
    expect(await postedTokens()).toBe(0);
  });

  it("is ended at Stripe also if its payment is reported while its checkout is being closed", async () => {
    const session = stripe.pay((await choose("starter")).body.checkout_url);
    expect((await user.request("DELETE", SUBSCRIPTION)).body.status).toBe("ended");
    const paid = stripe.takeEvents();
    stripe.beforeAnswer(/POST .*\/expire$/, () => deliver(paid));
    await sweep();
    stripe.beforeAnswer(null);
    await sweep();
    expect(stripeStatus(session.subscription)).toBe("canceled");
  });
});

/** A subscriber whose payment events have arrived. Returns their Stripe subscription. */
const subscriber = async () => {
  const session = stripe.pay((await choose("starter")).body.checkout_url);
  await deliver();
  return { customer: session.customer, subscription: session.subscription ?? "" };
};
const suspend = (what: "suspend" | "resume") => service.admin.post(`/api/v1/admin/users/${user.user_id}/${what}`);
const orderUpgrade = async () => expect((await choose("pro")).status).toBe(502);
const BOUGHT = 625_000;
/** Buys once, which saves a card, and then orders automatically. */
const orderTopUp = async () => {
  const set = async (threshold_tokens: number) => {
    const settings = { threshold_tokens, amount_cents: 100, monthly_cap_cents: 100 };
    expect((await user.request("PUT", "/api/v1/billing/auto-topup", settings)).status).toBe(200);
  };
  await set(1);
  stripe.pay((await user.post("/api/v1/billing/purchase", { amount_cents: 100 })).body.checkout_url);
  await deliver();
  await set(2 * STARTER);
  await sweep();
};
/** The tokens that a subscriber has without the order. */
const tokensBefore = (order: unknown) => STARTER + (order === orderTopUp ? BOUGHT : 0);
/** Places an order while Stripe's answers to `call` are lost. */
const losing = async (call: RegExp, order: () => Promise<unknown>) => {
  stripe.loseAnswers(call);
  await order();
  stripe.loseAnswers(null);
  stripe.forgetKeys();
};
const sendAgain = async () => {
  await db.query({ text: "update payment set send_at = now() where send_at is not null" });
  await sweep();
};
/** The order, and its invoices at Stripe. */
const orderOf = async (customer: string) => {
  const [order] = await db.query<{ status: string; to_send: boolean }>({
    text: `select status, send_at is not null as to_send from payment
      where user_id = $1 and (automatic or purpose = 'upgrade')`,
    values: [user.user_id],
  });
  const bills = stripe.invoices().filter((each) => each.customer === customer && each.parent === null);
  return [order?.status, order?.to_send, bills.map(({ status }) => status)];
};
/** Waits for the state, because the service's own sweep may be sending the order at this moment. */
const expectOrder = (customer: string, state: unknown[]) => expect.poll(() => orderOf(customer)).toEqual(state);
const DRAFT = /POST \/v1\/invoices$/;
const FINALIZED = /POST .*\/finalize$/;
const PAID = /POST .*\/pay$/;

describe("an order that Stripe did not confirm", () => {
  // `sweep` expects that the step succeeds.
  it("does not fail the step of the settable clock that sent it", async () => {
    const { customer } = await subscriber();
    await losing(DRAFT, orderTopUp);
    await sendAgain();
    await expectOrder(customer, ["succeeded", false, ["paid"]]);
  });

  it("of a suspended user's automatic top-up waits until the user is resumed, and is charged once", async () => {
    const { customer } = await subscriber();
    await losing(DRAFT, orderTopUp);
    await suspend("suspend");
    await sendAgain();
    await expectOrder(customer, ["pending", true, ["draft"]]);
    await suspend("resume");
    await sendAgain();
    await deliver();
    await expectOrder(customer, ["succeeded", false, ["paid"]]);
    expect(await postedTokens()).toBe(tokensBefore(orderTopUp) + BOUGHT);
  });

  const ENDS: [string, () => Promise<unknown>, (subscription: string) => Promise<unknown>][] = [
    ["an automatic top-up of an erased user", orderTopUp, erase],
    ["an upgrade of an erased user", orderUpgrade, erase],
    ["an upgrade whose subscription ended", orderUpgrade, async (id) => deliver([endAtStripe(id)])],
  ];
  const endAtStripe = (id: string) => {
    stripe.cancelSubscription(id);
    const [ended] = stripe.takeEvents().slice(-1);
    if (ended === undefined) throw new Error("no event");
    return ended;
  };

  describe.each(ENDS)("%s", (_what, order, end) => {
    it.each([
      ["was begun", DRAFT, []],
      ["was finalized", FINALIZED, ["void"]],
    ])("is withdrawn if its invoice %s, and takes no money", async (_step, call, bills) => {
      const { customer, subscription } = await subscriber();
      await losing(call, order);
      await end(subscription);
      await sendAgain();
      await expectOrder(customer, ["failed", false, bills]);
      await deliver();
      expect(await postedTokens()).toBe(tokensBefore(order));
    });

    it("has succeeded if its invoice was paid, and grants its tokens once", async () => {
      const { customer, subscription } = await subscriber();
      await losing(PAID, order);
      const paid = stripe.takeEvents();
      await end(subscription);
      await sendAgain();
      await expectOrder(customer, ["succeeded", expect.any(Boolean), ["paid"]]);
      await deliver(paid);
      expect(await postedTokens()).toBe(tokensBefore(order) + (order === orderTopUp ? BOUGHT : 37_000_000));
    });

    it("stays open while its payment is in progress, and grants its tokens if the money arrives", async () => {
      const { customer, subscription } = await subscriber();
      stripe.payLate(true);
      await losing(PAID, order);
      await end(subscription);
      await sendAgain();
      stripe.payLate(false);
      await expectOrder(customer, ["pending", false, ["open"]]);
      const [bill] = stripe.invoices().filter((each) => each.customer === customer && each.status === "open");
      if (bill !== undefined) stripe.settleLate(bill, true);
      await deliver();
      expect((await orderOf(customer))[0]).toBe("succeeded");
    });
  });
});
