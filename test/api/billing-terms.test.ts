import { afterAll, beforeAll, expect, it } from "vitest";
import { createDisabledPayments, createSimulatedPayments } from "../../src/account/billing/simulated-payments.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture, PLANS } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

// The effect of changed settings, and of a second node, on active subscriptions.

const SECOND_PERIOD = "2026-02-28T00:00:00.000Z";
const LATER = "2026-03-15T00:00:00.000Z";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

type House = ReturnType<typeof createBillingFixture>;
const amountsOf = async ({ ledger }: House, user_id: string) => {
  const { buckets } = await ledger.buckets(user_id, { include_closed: true, limit: 100, after: null });
  return buckets.map((bucket) => bucket.original_amount);
};

it("a subscription keeps its terms when the plans in the configuration change", async () => {
  const before = createBillingFixture(db);
  const user_id = await before.account();
  await before.billing.subscribeWithoutPayment(user_id, "starter");
  const starter = PLANS.find(({ id }) => id === "starter");
  if (starter === undefined) throw new Error("no starter");
  const cheaper = { ...starter, price_cents: 1, included_tokens: 1 };
  for (const plans of [[cheaper], PLANS.filter(({ id }) => id !== "starter")]) {
    const after = createBillingFixture(db, { plans });
    after.clock.put(plans.length === 1 ? SECOND_PERIOD : "2026-03-31T00:00:00.000Z");
    await after.sweep();
  }
  expect(await amountsOf(before, user_id)).toEqual([18_000_000, 18_000_000, 18_000_000]);
});

it("the tokens of an upgrade last as long as those of its new plan", async () => {
  const plans = PLANS.map((plan) => ({ ...plan, rollover_months: plan.id === "pro" ? 5 : 1 }));
  const fixture = createBillingFixture(db, { plans });
  const user_id = await fixture.account();
  await fixture.billing.subscribeWithoutPayment(user_id, "starter");
  await fixture.billing.subscribeWithoutPayment(user_id, "pro");
  const { buckets } = await fixture.ledger.buckets(user_id, { include_closed: true, limit: 100, after: null });
  expect(buckets.map(({ expires_at }) => expires_at)).toEqual(["2026-03-28T00:00:00.000Z", "2026-07-28T00:00:00.000Z"]);
});

it("a subscription changes to no plan in another currency, because their prices cannot be subtracted", async () => {
  const before = createBillingFixture(db);
  const user_id = await before.account();
  await before.billing.subscribeWithoutPayment(user_id, "professional");
  const after = createBillingFixture(db, { plans: PLANS.map((plan) => ({ ...plan, currency: "eur" })) });
  for (const plan_id of ["starter", "pro"]) {
    await expect(after.billing.subscribeWithoutPayment(user_id, plan_id)).rejects.toMatchObject({
      code: "invalid_value",
      message: expect.stringContaining("is paid in usd"),
    });
  }
  expect(await after.billing.subscription(user_id)).toMatchObject({ plan_id: "professional", pending_plan_id: null });
});

it("a sandbox subscription ends with its period once the sandbox is turned off, and the operator's gifts continue", async () => {
  const sandbox = createBillingFixture(db, { provider: createSimulatedPayments("sandbox") });
  const [buyer, guest] = [await sandbox.account(), await sandbox.account()];
  await sandbox.billing.subscribe(buyer, "starter");
  await sandbox.billing.subscribeWithoutPayment(guest, "starter");
  const none = createBillingFixture(db, { provider: createDisabledPayments() });
  none.clock.put(LATER);
  await none.sweep();
  expect(await amountsOf(none, buyer)).toEqual([18_000_000]);
  expect((await none.billing.subscription(buyer)).status).toBe("none");
  expect(await amountsOf(none, guest)).toEqual([18_000_000, 18_000_000]);
});

it("two nodes that sweep at the same moment grant each period once", async () => {
  const nodes = [createBillingFixture(db), createBillingFixture(db)];
  const [first] = nodes as [House, House];
  const users = await Promise.all(Array.from({ length: 8 }, () => first.account()));
  for (const user_id of users) await first.billing.subscribeWithoutPayment(user_id, "pro");
  for (const node of nodes) node.clock.put("2026-05-15T00:00:00.000Z");
  await Promise.all([...nodes, ...nodes].map((node) => node.sweep()));
  for (const user_id of users) expect(await amountsOf(first, user_id)).toEqual(Array(4).fill(55_000_000));
  expect((await first.ledger.audit()).violations).toEqual([]);
});

it("one renewal that fails does not delay others", async () => {
  const fixture = createBillingFixture(db);
  const [broken, sound] = [await fixture.account(), await fixture.account()];
  for (const user_id of [broken, sound]) await fixture.billing.subscribeWithoutPayment(user_id, "starter");
  fixture.calls.notify = async ({ user_id }) => {
    if (user_id === broken) throw new Error("no");
  };
  fixture.clock.put(LATER);
  await expect(fixture.sweep()).rejects.toThrow("1 renewals failed");
  expect(await amountsOf(fixture, sound)).toHaveLength(2);
  expect(await amountsOf(fixture, broken)).toHaveLength(1);
  const healed = createBillingFixture(db);
  healed.clock.put(LATER);
  await healed.sweep();
  expect(await amountsOf(fixture, broken)).toHaveLength(2);
});
