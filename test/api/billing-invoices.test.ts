import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { billingErrors } from "../../src/account/billing/errors.ts";
import { errors } from "../../src/kernel/errors.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture, forgetPayments } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const ENTERPRISE = 93_000_000;

let database: TestDatabase;
let db: Db;
let fixture: ReturnType<typeof createBillingFixture>;
let user_id: string;
let periodPaid: Awaited<ReturnType<(typeof fixture)["orderSubscription"]>>["periodPaid"];
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  await forgetPayments(db);
  fixture = createBillingFixture(db);
  user_id = await fixture.account();
  ({ periodPaid } = await fixture.orderSubscription(user_id, "enterprise"));
  await fixture.billing.applyPaymentEvent(periodPaid(1));
  await fixture.billing.overage.enable(user_id);
});

/** Uses up the plan's tokens and `overage_tokens` more. */
const overrun = async (overage_tokens: number) => {
  const { posted } = await fixture.balance(user_id);
  const held = await fixture.hold(user_id, posted + overage_tokens);
  if (held.status !== "held") throw new Error(`not held: ${held.code}`);
  await fixture.settle(user_id, held.hold_id, posted + overage_tokens);
};
const charges = () =>
  fixture.payments.asked
    .filter(({ what }) => what === "chargeOverage")
    .map(({ order }) => order as { payment_id: string; amount_cents: number });
const status = () => fixture.billing.overage.status(user_id);
const paid = ({ payment_id, amount_cents }: { payment_id: string; amount_cents: number }) =>
  fixture.billing.applyPaymentEvent({
    ...fixture.named(),
    kind: "paid",
    payment_id,
    reference: payment_id,
    amount_cents,
  });

it("overage is charged once for a period, in whole cents, with the rest carried over", async () => {
  await overrun(12_600);
  fixture.clock.put("2026-02-28T00:00:00.000Z");
  const second = periodPaid(2);
  await fixture.billing.applyPaymentEvent(second);
  await fixture.billing.applyPaymentEvent(second);
  await fixture.sweep();
  await fixture.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 2 }]);
  expect(await status()).toMatchObject({ used_tokens: 100, amount_due_cents: 0 });
});

it("overage that reaches the threshold is invoiced within the period, and still counts against its cap", async () => {
  await overrun(62_499_999);
  await fixture.sweep();
  expect(charges()).toEqual([]);
  await overrun(1);
  await fixture.sweep();
  await fixture.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 10_000 }]);
  expect(await status()).toMatchObject({
    used_tokens: 62_500_000,
    remaining_tokens: ENTERPRISE - 62_500_000,
    amount_due_cents: 10_000,
    invoiced_cents: 10_000,
  });
  await overrun(6300);
  expect(await status()).toMatchObject({ amount_due_cents: 10_001, invoiced_cents: 10_000 });
  await fixture.billing.applyPaymentEvent(periodPaid(2));
  await fixture.sweep();
  expect(charges()).toMatchObject([{ amount_cents: 10_000 }, { amount_cents: 1 }]);
  expect(await status()).toMatchObject({ used_tokens: 50, amount_due_cents: 0, invoiced_cents: 0 });
});

it("an invoice that the provider rejected is sent again with the same id", async () => {
  await overrun(6250);
  fixture.payments.answers.chargeOverage = errors.upstream("The payment provider did not take the order.");
  await fixture.billing.applyPaymentEvent(periodPaid(2));
  await expect(fixture.sweep()).rejects.toThrow("1 orders failed");
  await fixture.sweep();
  expect(charges()).toHaveLength(1);
  delete fixture.payments.answers.chargeOverage;
  await db.query({ text: "update payment set send_at = now() where send_at is not null" });
  await fixture.sweep();
  await fixture.sweep();
  const [first, second] = charges();
  expect(charges()).toHaveLength(2);
  expect(second).toEqual(first);
});

/** One cent of overage, invoiced at the period's end and declined. */
const unpaidInvoice = async () => {
  await overrun(6250);
  fixture.payments.answers.chargeOverage = billingErrors.paymentFailed();
  await fixture.billing.applyPaymentEvent(periodPaid(2));
  await expect(fixture.sweep()).rejects.toThrow("1 orders failed");
  const [charge] = charges();
  if (charge === undefined) throw new Error("no invoice");
  return charge;
};
const applyInvoiceEvent = (kind: "failed" | "voided", { payment_id }: { payment_id: string }) =>
  fixture.billing.applyPaymentEvent({ ...fixture.named(), kind, payment_id });
const invoices = async () =>
  (await fixture.billing.invoices.list({ user_id }, { limit: 10, before_id: null })).map((invoice) => invoice.status);

it("an unpaid invoice stops overage until it is paid", async () => {
  await unpaidInvoice();
  expect(await status()).toMatchObject({ enabled: true, eligible: false, remaining_tokens: 0 });
  expect((await fixture.ledger.overage(user_id)).cap_tokens).toBeNull();
  await expect(fixture.billing.overage.enable(user_id)).rejects.toMatchObject({ code: "overage_unpaid" });
  for (const charge of charges()) await paid(charge);
  expect(await status()).toMatchObject({ enabled: true, eligible: true, remaining_tokens: ENTERPRISE });
});

it("a void invoice is no longer owed; one that was written off is owed until it is void or paid", async () => {
  const charge = await unpaidInvoice();
  expect(await invoices()).toEqual(["unpaid"]);
  // The provider writes it off some weeks later.
  await applyInvoiceEvent("failed", charge);
  expect([await invoices(), (await status()).eligible]).toEqual([["unpaid"], false]);
  await applyInvoiceEvent("voided", charge);
  expect([await invoices(), (await status()).eligible]).toEqual([["void"], true]);
  expect((await fixture.ledger.overage(user_id)).cap_tokens).toBe(ENTERPRISE);
  // Neither becomes open again, but a payment is still accepted.
  await applyInvoiceEvent("failed", charge);
  expect([await invoices(), (await status()).eligible]).toEqual([["void"], true]);
  await paid(charge);
  await applyInvoiceEvent("voided", charge);
  expect([await invoices(), (await status()).eligible]).toEqual([["paid"], true]);
});

describe("an overage invoice whose payment is returned, after its tokens were used", () => {
  /** Two cents of overage, 12,500 tokens, invoiced and paid. The plan's tokens are used up. */
  const paidInvoice = async () => {
    await overrun(12_500);
    await fixture.billing.applyPaymentEvent(periodPaid(2));
    await fixture.sweep();
    for (const charge of charges()) await paid(charge);
    await overrun(0);
    return charges()[0]?.payment_id ?? "";
  };
  const about = (reference: string) => ({ ...fixture.named(), reference, dispute_reference: `dispute-${reference}` });
  const disputed = (reference: string) =>
    fixture.billing.applyPaymentEvent({ ...about(reference), kind: "disputed", disputed_cents: 2 });
  const won = (reference: string) =>
    fixture.billing.applyPaymentEvent({ ...about(reference), kind: "dispute_closed", disputed_cents: 2, won: true });
  const refunded = (reference: string, refunded_cents: number, refund_failed_cents = 0) =>
    fixture.billing.applyPaymentEvent({
      ...fixture.named(),
      kind: "refunded",
      reference,
      refunded_cents,
      refund_failed_cents,
    });
  const cleanBooks = async () => expect((await fixture.ledger.audit()).violations).toEqual([]);

  it("makes debt in proportion to its refund, which the next grant repays first", async () => {
    const reference = await paidInvoice();
    await refunded(reference, 1);
    await refunded(reference, 1);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 6250 });
    await refunded(reference, 2);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 12_500 });
    const listed = await fixture.billing.invoices.list({ user_id }, { limit: 1, before_id: null });
    expect(listed).toMatchObject([{ status: "paid", amount_cents: 2, refunded_cents: 2 }]);
    await fixture.billing.applyPaymentEvent(periodPaid(3));
    expect(await fixture.balance(user_id)).toEqual({ posted: ENTERPRISE - 12_500, debt: 0 });
    await cleanBooks();
  });

  it("loses that debt if the refund fails or the dispute is won", async () => {
    const reference = await paidInvoice();
    await refunded(reference, 1);
    await refunded(reference, 1, 1);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    await disputed(reference);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 12_500 });
    await won(reference);
    await won(reference);
    expect(await fixture.balance(user_id)).toEqual({ posted: 0, debt: 0 });
    await cleanBooks();
  });

  it("returns the tokens if the dispute is won after a grant has repaid the debt", async () => {
    const reference = await paidInvoice();
    await disputed(reference);
    await fixture.billing.applyPaymentEvent(periodPaid(3));
    expect(await fixture.balance(user_id)).toEqual({ posted: ENTERPRISE - 12_500, debt: 0 });
    await won(reference);
    expect(await fixture.balance(user_id)).toEqual({ posted: ENTERPRISE, debt: 0 });
    await cleanBooks();
  });
});

it("a paid overage invoice grants nothing", async () => {
  await overrun(6250);
  await fixture.billing.applyPaymentEvent(periodPaid(2));
  await fixture.sweep();
  for (const charge of charges()) await paid(charge);
  expect(await fixture.balance(user_id)).toEqual({ posted: ENTERPRISE, debt: 0 });
  expect((await fixture.ledger.audit()).violations).toEqual([]);
});
