import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createStripePayments } from "../../src/account/billing/stripe.adapter.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createBillingFixture } from "../support/billing.ts";
import { expectCleanAudit } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { type StripeEvent, startStripe, stripeSettings, WEBHOOK_SECRET } from "../support/stripe.ts";
import { STRIPE_KEY } from "../support/stripe-server.ts";

// contract 5.8.1: events that Stripe's webhook did not deliver are read from Stripe's list of events.

const NOW = "2026-01-31T10:00:00.000Z";
const BOUGHT = 6_250_000;
const STARTER = 18_000_000;
/** Longer than the time that the webhook has. */
const LATE_SECONDS = 360;
const LIST = /^GET \/v1\/events$/;

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
afterEach(async () => {
  stripe.answerWith(null);
  stripe.loseAnswers(null);
  stripe.beforeAnswer(null);
  stripe.runBehind(0);
  await readAll();
});
afterAll(async () => {
  await expectCleanAudit(service);
  await db.close();
  await service.stop();
  stripe.stop();
});

interface Reading {
  read_to: string | null;
  after_event: string | null;
  failures: number;
  waits_seconds: number;
}
const readings = async () =>
  db.query<Reading>({
    text: `select read_to, after_event, failures, extract(epoch from next_read_at - now())::integer as waits_seconds
      from payment_event_reading`,
  });
const setClock = () => service.admin.request("PUT", "/api/v1/admin/clock", { now: NOW });
/** Lets the wait for the next page pass. The window begins an hour ago, unless it has begun. */
const makeDue = () =>
  db.query({
    text: `update payment_event_reading set next_read_at = now(),
      read_from = case when read_to is null then now() - interval '1 hour' else read_from end`,
  });
/** Reads one page, as the sweep of some node. */
const readPage = async () => {
  await makeDue();
  await setClock();
};
/** Reads until a window has ended. */
const readAll = async () => {
  for (let pages = 0; pages < 20; pages += 1) {
    await readPage();
    const [reading] = await readings();
    if (reading?.read_to === null && reading.failures === 0) return;
  }
  throw new Error("the reading does not end");
};
/** The webhook loses all events, and its time passes. */
const loseEvents = (): StripeEvent[] => {
  stripe.ageEvents(LATE_SECONDS);
  return stripe.takeEvents();
};
const deliver = async (...events: StripeEvent[]) => {
  for (const event of events) expect((await stripe.deliver(service.url, event)).status).toBe(200);
};
const order = async (amount_cents = 1_000) => (await user.post("/api/v1/billing/purchase", { amount_cents })).body;
const statusOf = async (id: string) => (await user.get(`/api/v1/billing/purchases/${id}`)).body.status;
const posted = async () => (await user.get("/api/v1/users/me")).body.balance.posted;
const asked = (call: RegExp) => stripe.requests.filter(({ method, path }) => call.test(`${method} ${path}`)).length;
const missedEvents = async () => {
  const text = await metricsOf(service.url);
  return Number(/^purser_payment_events_missed_total (\d+)/m.exec(text)?.[1]);
};
/** Another program on the same Stripe account has an event. */
const keepForeign = (type: string, object: object) => {
  const metadata = { purser_payment_id: newId() };
  stripe.keepEvent({ id: `evt_${newId()}`, type, data: { object: { ...object, metadata } } });
};
/** The reading of another node on the same database. */
const anotherNode = () => {
  const keys = { secret_key: STRIPE_KEY, webhook_secret: WEBHOOK_SECRET };
  const provider = createStripePayments({ ...keys, api_base: stripe.url, public_url: "http://127.0.0.1" });
  const { billing } = createBillingFixture(db, { provider });
  const source = billing.sources.find(({ name }) => name === "missed payment events");
  if (source === undefined) throw new Error("no reading");
  return source;
};
/** A purchase that was paid while the webhook was away. */
const paidUnseen = async () => {
  const { id, checkout_url } = await order();
  const session = stripe.pay(checkout_url);
  return { id, payment_intent: session.payment_intent ?? "", events: loseEvents() };
};

describe("an event that Stripe's webhook did not deliver", () => {
  it("grants a paid purchase once, also if the webhook delivers it afterwards", async () => {
    const before = await missedEvents();
    const { id, events } = await paidUnseen();
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
    expect(await missedEvents()).toBe(before + 1);
    expect(service.warned("did not deliver events").at(-1)).toEqual({ missed: 1 });
    await deliver(...events, ...events);
    await readAll();
    expect(await posted()).toBe(BOUGHT);
    expect(await missedEvents()).toBe(before + 1);
  });

  it("is read only after the webhook had five minutes to deliver it", async () => {
    const { id, checkout_url } = await order();
    stripe.pay(checkout_url);
    stripe.takeEvents();
    await readAll();
    expect(await statusOf(id)).toBe("pending");
    stripe.ageEvents(LATE_SECONDS);
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
  });

  it("begins a subscription, renews it, and ends it", async () => {
    const { checkout_url } = (await user.post("/api/v1/billing/subscription", { plan_id: "starter" })).body;
    const subscription = stripe.pay(checkout_url).subscription ?? "";
    loseEvents();
    await readAll();
    expect(await posted()).toBe(STARTER);
    stripe.renew(subscription);
    loseEvents();
    await readAll();
    expect(await posted()).toBe(2 * STARTER);
    stripe.cancelSubscription(subscription);
    loseEvents();
    await readAll();
    expect((await user.get("/api/v1/billing/subscription")).body.status).toBe("none");
  });

  it("of a subscription's whole life is applied in any order, also newest first", async () => {
    const { checkout_url } = (await user.post("/api/v1/billing/subscription", { plan_id: "starter" })).body;
    const subscription = stripe.pay(checkout_url).subscription ?? "";
    stripe.renew(subscription);
    stripe.cancelSubscription(subscription);
    loseEvents();
    await readAll();
    expect(await posted()).toBe(2 * STARTER);
    expect((await user.get("/api/v1/billing/subscription")).body.status).toBe("none");
  });

  it("takes back refunded and disputed tokens, and closes an expired checkout", async () => {
    const first = await paidUnseen();
    const second = await paidUnseen();
    const abandoned = await order();
    stripe.refund(first.payment_intent, 1_000);
    const dispute = stripe.dispute(second.payment_intent);
    stripe.expire(abandoned.checkout_url);
    loseEvents();
    await readAll();
    expect(await posted()).toBe(0);
    expect([await statusOf(first.id), await statusOf(abandoned.id)]).toEqual(["refunded", "failed"]);
    stripe.closeDispute(dispute.id, "won");
    loseEvents();
    await readAll();
    expect(await posted()).toBe(BOUGHT);
  });

  it("changes nothing if it belongs to another program, and does not stop the others", async () => {
    const { id } = await paidUnseen();
    keepForeign("checkout.session.completed", { id: "cs_deleted" });
    keepForeign("checkout.session.expired", { id: "cs_other" });
    keepForeign("charge.refunded", { id: "ch_other", payment_intent: "pi_other" });
    keepForeign("customer.updated", { id: "cus_other" });
    loseEvents();
    const before = await missedEvents();
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
    expect(await missedEvents()).toBe(before + 1);
  });
});

describe("the reading of Stripe's list", () => {
  it("asks for no object of an event that the webhook has delivered", async () => {
    const { checkout_url } = await order();
    const { id } = stripe.pay(checkout_url);
    await deliver(...loseEvents());
    await readAll();
    expect(asked(new RegExp(`^GET .*/${id}$`))).toBe(1);
  });

  it("asks for no session and no invoice of another program", async () => {
    const { id } = await paidUnseen();
    const object = { metadata: { order: "1" } };
    stripe.keepEvent({
      id: `evt_${newId()}`,
      type: "checkout.session.completed",
      data: { object: { id: "cs_other", ...object } },
    });
    stripe.keepEvent({ id: `evt_${newId()}`, type: "invoice.paid", data: { object: { id: "in_other", ...object } } });
    loseEvents();
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
    expect(asked(/^GET .*_other$/)).toBe(0);
  });

  it("goes on where it was after a failure that passes", async () => {
    await paidUnseen();
    stripe.answerWith(LIST, { status: 429, body: '{"error": {"type": "rate_limit_error"}}' });
    await db.query({ text: "update payment_event_reading set read_to = now(), after_event = 'evt_known'" });
    await readPage();
    await expect.poll(readings).toMatchObject([{ failures: 1, after_event: "evt_known" }]);
  });

  it("continues page by page on any node, and repeats a page whose position was lost with its process", async () => {
    const abandoned = await order();
    stripe.expire(abandoned.checkout_url);
    for (let count = 0; count < 55; count += 1) keepForeign("checkout.session.expired", { id: "cs_other" });
    const { id } = await paidUnseen();
    await db.query({
      text: `create function die() returns trigger language plpgsql as $$ begin
        if new.after_event is not null then raise exception 'killed'; end if; return new; end $$`,
    });
    const on = "on payment_event_reading";
    await db.query({ text: `create trigger dies before update ${on} for each row execute function die()` });
    const read = async () => {
      await makeDue();
      return anotherNode()
        .carryOut()
        .then(
          () => "not due",
          (error: Error) => error.message,
        );
    };
    await expect.poll(read).toContain("killed");
    expect([await statusOf(id), await statusOf(abandoned.id)]).toEqual(["succeeded", "pending"]);
    await db.query({ text: `drop trigger dies ${on}` });
    await db.query({ text: "drop function die()" });
    await readAll();
    expect(await statusOf(abandoned.id)).toBe("failed");
    expect(await posted()).toBe(BOUGHT);
  });

  it("is done by one node at a time, and by another one when that node has died", async () => {
    const { id } = await paidUnseen();
    const nodes = [anotherNode(), anotherNode()];
    const read = () => Promise.all(nodes.map((node) => node.carryOut()));
    const before = asked(LIST);
    stripe.beforeAnswer(LIST, read);
    await makeDue();
    await read();
    expect(asked(LIST)).toBe(before + 1);
    stripe.beforeAnswer(null);
    const inLease = "read_to = now(), next_read_at = now() + interval '5 minutes'";
    await db.query({ text: `update payment_event_reading set ${inLease}` });
    await read();
    expect(asked(LIST)).toBe(before + 1);
    await db.query({ text: "update payment_event_reading set next_read_at = now()" });
    await read();
    // the service's own sweep may have begun it
    await expect.poll(() => statusOf(id)).toBe("succeeded");
    expect(asked(LIST)).toBe(before + 2);
  });

  it("and the webhook at the same moment grant once", async () => {
    const { events } = await paidUnseen();
    stripe.beforeAnswer(/GET \/v1\/checkout\/sessions/, async () => {
      stripe.beforeAnswer(null);
      await deliver(...events);
    });
    await Promise.all([readAll(), deliver(...events)]);
    expect(await posted()).toBe(BOUGHT);
  });

  it.each([
    [
      "429",
      /RateLimit/,
      () => stripe.answerWith(LIST, { status: 429, body: '{"error": {"type": "rate_limit_error"}}' }),
    ],
    ["500", /StripeAPIError/, () => stripe.answerWith(LIST, { status: 500, body: "" })],
    [
      "403",
      /Permission/,
      () => stripe.answerWith(LIST, { status: 403, body: '{"error": {"type": "invalid_request_error"}}' }),
    ],
    ["no JSON", /StripeAPIError/, () => stripe.answerWith(LIST, { status: 200, body: "<html>" })],
    ["no list", /./, () => stripe.answerWith(LIST, { status: 200, body: '{"object": "list"}' })],
    ["nothing", /StripeConnection/, () => stripe.loseAnswers(LIST)],
  ])("waits longer after each failure, and misses nothing, if Stripe answers %s", async (_what, reason, fail) => {
    const { id } = await paidUnseen();
    fail();
    await readPage();
    await expect.poll(readings).toMatchObject([{ failures: 1 }]);
    const [first] = await readings();
    await readPage();
    await expect.poll(readings).toMatchObject([{ failures: 2 }]);
    const [second] = await readings();
    expect(second?.waits_seconds).toBeGreaterThan((first?.waits_seconds ?? 0) + 30);
    expect(service.warned("list of events was not read").at(-1)?.error).toMatchObject({
      message: expect.stringMatching(reason),
    });
    stripe.answerWith(null);
    stripe.loseAnswers(null);
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
    expect(await readings()).toMatchObject([{ failures: 0 }]);
  });

  it("applies the other events, and later the one whose object Stripe did not give", async () => {
    const first = await paidUnseen();
    const abandoned = await order();
    stripe.expire(abandoned.checkout_url);
    loseEvents();
    stripe.answerWith(/GET \/v1\/checkout\/sessions/, { status: 500, body: "" });
    await readPage();
    await expect.poll(readings).toMatchObject([{ read_to: null, failures: 1 }]);
    expect([await statusOf(first.id), await statusOf(abandoned.id)]).toEqual(["pending", "failed"]);
    const [failed] = service.warned("a payment event failed");
    expect(failed).toMatchObject({
      event_id: first.events[0]?.id,
      error: { message: expect.stringMatching(/StripeAPIError/) },
    });
    stripe.answerWith(null);
    await db.query({ text: "update payment_event_reading set next_read_at = now()" });
    await expect.poll(() => statusOf(first.id)).toBe("succeeded");
  });

  it("misses nothing if the database's clock is 20 minutes ahead of Stripe's", async () => {
    stripe.runBehind(1_200);
    await readAll();
    const { id, checkout_url } = await order();
    stripe.pay(checkout_url);
    stripe.takeEvents();
    stripe.ageEvents(1_200);
    await db.query({ text: "update payment_event_reading set next_read_at = now()" });
    await setClock();
    await expect.poll(() => statusOf(id)).toBe("succeeded");
  });

  it("begins again when Stripe has deleted the event at its position", async () => {
    const { id } = await paidUnseen();
    await db.query({ text: "update payment_event_reading set read_to = now(), after_event = 'evt_deleted'" });
    await readPage();
    await readAll();
    expect(await statusOf(id)).toBe("succeeded");
  });

  it("begins 30 days ago where there are customers, and now where there are none", async () => {
    /** The days back from which a new reading lists. */
    const begin = async () => {
      await db.query({ text: "delete from payment_event_reading" });
      const before = stripe.requests.length;
      await service.restart();
      const first = () => stripe.requests.slice(before).find(({ path }) => path === "/v1/events");
      await expect.poll(first).toBeDefined();
      const { gte } = (first()?.form.created ?? {}) as { gte?: string };
      return Math.round((Date.now() / 1000 - Number(gte)) / 86_400);
    };
    const { id } = await paidUnseen();
    stripe.ageEvents(86_400);
    expect(await begin()).toBe(30);
    await expect.poll(() => statusOf(id)).toBe("succeeded");
    await db.query({ text: "update billing_account set customer_provider = null, customer_reference = null" });
    expect(await begin()).toBe(0);
  });
});
