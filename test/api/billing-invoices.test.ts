import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { errors } from "../../src/errors.ts";
import type { Db } from "../../src/platform/db.ts";
import { createBillingFixture } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const ENTERPRISE = 93_000_000;

let database: TestDatabase;
let db: Db;
let house: ReturnType<typeof createBillingFixture>;
let user_id: string;
let periodPaid: Awaited<ReturnType<(typeof house)["orderSubscription"]>>["periodPaid"];
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  await db.query({ text: "truncate payment_event, payment" });
  house = createBillingFixture(db);
  user_id = await house.account();
  ({ periodPaid } = await house.orderSubscription(user_id, "enterprise"));
  await house.billing.applyPaymentEvent(periodPaid(1));
  await house.billing.overage.enable(user_id);
});

/** Uses up the plan's tokens and `overage_tokens` more. */
const overrun = async (overage_tokens: number) => {
  const { posted } = await house.balance(user_id);
  const held = await house.hold(user_id, posted + overage_tokens);
  if (held.status !== "held") throw new Error(`not held: ${held.code}`);
  await house.settle(user_id, held.hold_id, posted + overage_tokens);
};
const charges = () =>
  house.payments.asked
    .filter(({ what }) => what === "chargeOverage")
    .map(({ order }) => order as { payment_id: string; amount_cents: number });
const status = () => house.billing.overage.status(user_id);
const paid = ({ payment_id, amount_cents }: { payment_id: string; amount_cents: number }) =>
  house.billing.applyPaymentEvent({ ...house.named(), kind: "paid", payment_id, reference: payment_id, amount_cents });

it("overage is charged once for a period, in whole cents, the rest carried", async () => {
  await overrun(12_600);
  house.clock.put("2026-02-28T00:00:00.000Z");
  const second = periodPaid(2);
  await house.billing.applyPaymentEvent(second);
  await house.billing.applyPaymentEvent(second);
  await house.sweep();
  await house.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 2 }]);
  expect(await status()).toMatchObject({ used_tokens: 100, amount_due_cents: 0 });
});

it("overage that comes to the threshold is invoiced within the period, and still counts against its cap", async () => {
  await overrun(62_499_999);
  await house.sweep();
  expect(charges()).toEqual([]);
  await overrun(1);
  await house.sweep();
  await house.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 10_000 }]);
  expect(await status()).toMatchObject({
    used_tokens: 62_500_000,
    remaining_tokens: ENTERPRISE - 62_500_000,
    amount_due_cents: 0,
    invoiced_cents: 10_000,
  });
  await overrun(6300);
  expect(await status()).toMatchObject({ amount_due_cents: 1 });
  await house.billing.applyPaymentEvent(periodPaid(2));
  await house.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 10_000 }, { amount_cents: 1 }]);
  expect(await status()).toMatchObject({ used_tokens: 50, invoiced_cents: 0 });
});

it("an invoice that the provider did not take is sent again, under the same id", async () => {
  await overrun(6250);
  house.payments.answers.chargeOverage = errors.upstream("The payment provider did not take the order.");
  await house.billing.applyPaymentEvent(periodPaid(2));
  await expect(house.sweep()).rejects.toThrow("1 orders failed");
  await house.sweep();
  expect(charges()).toHaveLength(1);
  delete house.payments.answers.chargeOverage;
  await db.query({ text: "update payment set send_at = now() where send_at is not null" });
  await house.sweep();
  await house.sweep();
  const [first, second] = charges();
  expect(charges()).toHaveLength(2);
  expect(second).toEqual(first);
});

it("an unpaid invoice stops overage until it is paid", async () => {
  await overrun(6250);
  house.payments.answers.chargeOverage = errors.paymentFailed();
  await house.billing.applyPaymentEvent(periodPaid(2));
  await expect(house.sweep()).rejects.toThrow("1 orders failed");
  expect(await status()).toMatchObject({ enabled: true, eligible: false, remaining_tokens: 0 });
  expect((await house.ledger.overage(user_id)).cap_tokens).toBeNull();
  await expect(house.billing.overage.enable(user_id)).rejects.toMatchObject({ code: "overage_unpaid" });
  for (const charge of charges()) await paid(charge);
  expect(await status()).toMatchObject({ enabled: true, eligible: true, remaining_tokens: ENTERPRISE });
});

it("paid overage grants nothing", async () => {
  await overrun(6250);
  await house.billing.applyPaymentEvent(periodPaid(2));
  await house.sweep();
  for (const charge of charges()) await paid(charge);
  expect(await house.balance(user_id)).toEqual({ posted: ENTERPRISE, debt: 0 });
  expect((await house.ledger.audit()).violations).toEqual([]);
});
