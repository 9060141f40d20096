import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PaymentEvent } from "../../src/account/billing/payments.types.ts";
import { errors } from "../../src/kernel/errors.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture, permutations } from "../support/billing.ts";
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
const spend = async (tokens: number) => {
  const held = await fixture.hold(user_id, tokens);
  if (held.status !== "held") throw new Error(`not held: ${held.code}`);
  await fixture.settle(user_id, held.hold_id, tokens);
};
const refunded = (...refund: Parameters<typeof fixture.refunded>) => fixture.refunded(...refund);
const aboutDispute = (reference: string, disputed_cents: number) => ({
  ...fixture.named(),
  reference,
  dispute_reference: `dispute-${reference}`,
  disputed_cents,
});
const disputed = (reference: string, cents: number): PaymentEvent => ({
  ...aboutDispute(reference, cents),
  kind: "disputed",
});
const closed = (reference: string, cents: number, won: boolean): PaymentEvent => ({
  ...aboutDispute(reference, cents),
  kind: "dispute_closed",
  won,
});
const expectCleanBooks = async () => expect((await fixture.ledger.audit()).violations).toEqual([]);

describe("a purchase", () => {
  it("is pending until it is paid, and grants once for repeated events (opencode#28402)", async () => {
    const { purchase, paid, reference } = await fixture.orderTopUp(user_id, 200);
    expect(purchase).toMatchObject({ status: "pending", bucket_id: null, checkout_url: "https://pay.example/page" });
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    const again: PaymentEvent = { ...paid, event_id: "another-delivery" };
    expect(await applyAll(paid, paid, again)).toEqual(["applied", "duplicate", "applied"]);
    expect(await fixture.balance(user_id)).toEqual({ posted: 1_250_000, debt: 0 });
    const { status, bucket_id } = await fixture.billing.purchases.one(user_id, purchase.id);
    expect([status, bucket_id]).toEqual(["succeeded", expect.any(String)]);
    expect(reference).toContain(purchase.id);
    await expectCleanBooks();
  });

  it("grants once for ten concurrent events", async () => {
    const { paid } = await fixture.orderTopUp(user_id, 100);
    await Promise.all(
      Array.from({ length: 10 }, (_, index) => apply({ ...paid, event_id: index < 5 ? "same" : `other-${index}` })),
    );
    expect(await fixture.balance(user_id)).toEqual({ posted: 625_000, debt: 0 });
  });

  it("that failed stays failed after another failure event, and is granted after a payment", async () => {
    const { purchase, paid } = await fixture.orderTopUp(user_id, 100);
    const failed: PaymentEvent = { ...fixture.named(), kind: "failed", payment_id: purchase.id };
    await apply(failed);
    expect(await fixture.billing.purchases.one(user_id, purchase.id)).toMatchObject({ status: "failed" });
    await apply(paid);
    expect(await apply({ ...failed, ...fixture.named() })).toBe("ignored");
    expect(await fixture.billing.purchases.one(user_id, purchase.id)).toMatchObject({ status: "succeeded" });
    expect(await fixture.balance(user_id)).toEqual({ posted: 625_000, debt: 0 });
  });

  it("that the provider rejected is failed, and the caller gets the error", async () => {
    fixture.payments.answers.topUp = errors.upstream("The payment provider did not take the order.");
    await expect(fixture.orderTopUp(user_id, 100)).rejects.toMatchObject({ shape: { status: 502 } });
    const purchases = await fixture.billing.purchases.list(user_id, { limit: 10, before_id: null });
    expect(purchases).toMatchObject([{ status: "failed" }]);
  });

  it("uses the provider's customer once it is known", async () => {
    await fixture.orderTopUp(user_id, 100);
    await fixture.orderTopUp(user_id, 100);
    const payers = fixture.payments.asked.map(({ order }) => (order as { payer: object }).payer);
    expect(payers).toMatchObject([
      { user_id, email: "ada@example.com", customer_reference: null },
      { user_id, email: "ada@example.com", customer_reference: "customer-1" },
    ]);
  });
});

describe("a refund (eliza#10920: a refund keeps the credit)", () => {
  it("takes tokens back in proportion to the total refunds, and all of them at the last cent", async () => {
    const { purchase, paid, reference } = await fixture.orderTopUp(user_id, 200);
    await apply(paid);
    await apply(refunded(reference, 50));
    expect(await fixture.balance(user_id)).toEqual({ posted: 937_500, debt: 0 });
    await applyAll(refunded(reference, 120), refunded(reference, 120), refunded(reference, 50));
    expect(await fixture.balance(user_id)).toEqual({ posted: 500_000, debt: 0 });
    expect(await fixture.billing.purchases.one(user_id, purchase.id)).toMatchObject({
      status: "succeeded",
      refunded_cents: 120,
    });
    await apply(refunded(reference, 200));
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    expect(await fixture.billing.purchases.one(user_id, purchase.id)).toMatchObject({ status: "refunded" });
    await expectCleanBooks();
  });

  it("larger than the remaining tokens becomes debt, which the next grant repays first (lago-api#4985)", async () => {
    const { paid, reference } = await fixture.orderTopUp(user_id, 200);
    await apply(paid);
    await spend(1_000_000);
    await apply(refunded(reference, 200));
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 1_000_000 });
    const next = await fixture.orderTopUp(user_id, 100);
    await apply(next.paid);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 375_000 });
    await apply((await fixture.orderTopUp(user_id, 100)).paid);
    expect(await fixture.balance(user_id)).toEqual({ posted: 250_000, debt: 0 });
    await expectCleanBooks();
  });

  it("that fails later returns its tokens, in any order of the events and with repeats", async () => {
    for (const order of permutations([0, 1, 2, 3])) {
      const own = await fixture.account();
      const { purchase, paid, reference } = await fixture.orderTopUp(own, 200);
      const sums = [refunded(reference, 50), refunded(reference, 200), refunded(reference, 200, 150)];
      const events = [paid, ...sums];
      for (const at of [...order, ...order]) await apply(events[at] as PaymentEvent);
      expect(await fixture.balance(own), order.join()).toEqual({ posted: 937_500, debt: 0 });
      expect(await fixture.billing.purchases.one(own, purchase.id)).toMatchObject({
        status: "succeeded",
        refunded_cents: 50,
      });
    }
    await expectCleanBooks();
  });

  it("of one payment does not touch the tokens of another", async () => {
    const [first, second] = [await fixture.orderTopUp(user_id, 100), await fixture.orderTopUp(user_id, 300)];
    await applyAll(first.paid, second.paid);
    await apply(refunded(second.reference, 300));
    expect(await fixture.balance(user_id)).toEqual({ posted: 625_000, debt: 0 });
  });

  it("of a subscription's period takes that period's tokens back", async () => {
    const { periodPaid, subscription_id } = await fixture.orderSubscription(user_id, "starter");
    await apply(periodPaid(1));
    await apply(refunded(`money-${subscription_id}-1`, 1450));
    expect(await fixture.balance(user_id)).toEqual({ posted: 9_000_000, debt: 0 });
  });

  it("of an unknown payment waits, and changes no account", async () => {
    expect(await apply(refunded("money-of-another-shop", 100))).toBe("waiting");
    await fixture.sweep();
    await expectCleanBooks();
  });
});

describe("a dispute", () => {
  it("takes the tokens while it is open, returns them if it is won, and keeps them if it is lost", async () => {
    const [won, lost] = [await fixture.orderTopUp(user_id, 100), await fixture.orderTopUp(user_id, 200)];
    await applyAll(won.paid, lost.paid, disputed(won.reference, 100), disputed(lost.reference, 200));
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    await applyAll(closed(won.reference, 100, true), closed(lost.reference, 200, false));
    expect(await fixture.balance(user_id)).toEqual({ posted: 625_000, debt: 0 });
    await expectCleanBooks();
  });

  it("that was won repays the debt that it made", async () => {
    const { paid, reference } = await fixture.orderTopUp(user_id, 100);
    await apply(paid);
    await spend(600_000);
    await apply(disputed(reference, 100));
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 600_000 });
    await apply(closed(reference, 100, true));
    expect(await fixture.balance(user_id)).toEqual({ posted: 25_000, debt: 0 });
    await expectCleanBooks();
  });

  it("that was lost and then won by appeal returns the tokens, in either order of the events", async () => {
    for (const order of permutations([0, 1, 2])) {
      const own = await fixture.account();
      const { paid, reference } = await fixture.orderTopUp(own, 100);
      await apply(paid);
      const events = [disputed(reference, 100), closed(reference, 100, false), closed(reference, 100, true)];
      for (const at of order) await apply(events[at] as PaymentEvent);
      expect(await fixture.balance(own), order.join()).toEqual({ posted: 625_000, debt: 0 });
    }
  });

  it("that was won stays won if the event of its opening arrives later", async () => {
    const { paid, reference } = await fixture.orderTopUp(user_id, 100);
    await applyAll(paid, closed(reference, 100, true), disputed(reference, 100));
    expect(await fixture.balance(user_id)).toEqual({ posted: 625_000, debt: 0 });
  });

  it("and a refund of the same payment take no token twice", async () => {
    const { paid, reference } = await fixture.orderTopUp(user_id, 100);
    await applyAll(paid, refunded(reference, 60), disputed(reference, 100));
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    await apply(closed(reference, 100, true));
    expect(await fixture.balance(user_id)).toEqual({ posted: 250_000, debt: 0 });
    await expectCleanBooks();
  });
});

describe("events older than 35 days", () => {
  const DAY_SECONDS = 86_400;
  const kept = async () =>
    (await db.query<{ kind: string }>({ text: "select kind from payment_event order by kind" })).map(
      ({ kind }) => kind,
    );

  it("are deleted, also refunds and disputes of payments that are not Purser's, and their repeats change nothing", async () => {
    const { paid, reference } = await fixture.orderTopUp(user_id, 200);
    const [back, dispute] = [refunded(reference, 50), disputed(reference, 50)];
    await applyAll(paid, back, dispute, closed(reference, 50, true));
    const foreign = [refunded("money-of-another-shop", 100), disputed("money-of-another-shop", 100)];
    expect(await applyAll(...foreign)).toEqual(["waiting", "waiting"]);
    fixture.pass(35 * DAY_SECONDS);
    await fixture.billing.sweep();
    expect(await kept()).toHaveLength(6);
    fixture.pass(DAY_SECONDS);
    await fixture.billing.sweep();
    expect(await kept()).toEqual([]);
    await applyAll(dispute, back, paid);
    expect(await fixture.balance(user_id)).toEqual({ posted: 937_500, debt: 0 });
    await expectCleanBooks();
  });

  it("are kept while they wait to be applied to a payment of Purser's", async () => {
    const { purchase, paid, reference } = await fixture.orderTopUp(user_id, 200);
    await apply({ ...paid, reference: "money-1" });
    await apply(refunded(reference, 200));
    await db.query({ text: "update payment set reference = $1 where id = $2", values: [reference, purchase.id] });
    fixture.pass(36 * DAY_SECONDS);
    await fixture.billing.sweep();
    expect(await kept()).toEqual(["refunded"]);
    await fixture.sweep();
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
  });
});

describe("events out of order (langfuse#17388, llmgateway#2911)", () => {
  it("paid, refunded, disputed and closed have the same result in each of their 24 orders, each event twice", async () => {
    for (const order of permutations([0, 1, 2, 3])) {
      const own = await fixture.account();
      const { paid, reference } = await fixture.orderTopUp(own, 100);
      const events = [paid, refunded(reference, 40), disputed(reference, 60), closed(reference, 60, true)];
      for (const at of [...order, ...order]) await apply(events[at] as PaymentEvent);
      expect(await fixture.balance(own), order.join()).toEqual({ posted: 375_000, debt: 0 });
    }
    await expectCleanBooks();
  });

  it("a refund at the same moment as its payment is never lost", async () => {
    for (let round = 0; round < 10; round += 1) {
      const own = await fixture.account();
      const { paid, reference } = await fixture.orderTopUp(own, 100);
      await Promise.all([apply(refunded(reference, 100)), apply(paid)]);
      expect(await fixture.balance(own)).toEqual({ posted: 0, debt: 0 });
    }
  });

  it("three periods grant three times in each order of their events, and the latest is the current one", async () => {
    for (const order of permutations([1, 2, 3])) {
      const own = await fixture.account();
      const { periodPaid } = await fixture.orderSubscription(own, "starter");
      const events = [periodPaid(1), periodPaid(2), periodPaid(3)];
      for (const number of [...order, ...order]) await apply(events[number - 1] as PaymentEvent);
      expect((await fixture.balance(own)).posted, order.join()).toBe(54_000_000);
      expect(await fixture.billing.subscription(own)).toMatchObject({
        status: "active",
        current_period_start: "2026-03-31T00:00:00.000Z",
        current_period_end: "2026-04-30T00:00:00.000Z",
      });
    }
    await expectCleanBooks();
  });

  it("a period that is paid after its subscription's end is granted, and the subscription stays ended", async () => {
    const { periodPaid, subscription_id, subscription_reference } = await fixture.orderSubscription(user_id, "starter");
    const over: PaymentEvent = {
      ...fixture.named(),
      kind: "subscription_ended",
      subscription_id,
      subscription_reference,
    };
    await applyAll(periodPaid(1), over, periodPaid(2));
    expect((await fixture.balance(user_id)).posted).toBe(36_000_000);
    expect((await fixture.billing.subscription(user_id)).status).toBe("none");
    await fixture.sweep();
    expect(fixture.payments.asked.at(-1)).toMatchObject({
      what: "endSubscription",
      order: { subscription_id, subscription_reference },
    });
  });
});
