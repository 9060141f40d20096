import { afterAll, beforeAll, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

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

const GRANTED = "every successful payment has granted its tokens once, and no other payment has granted any";
const PAID_FOR = "every grant by a payment has its payment";
const SHARE =
  "the tokens clawed back from a payment are proportional to the money returned, less what adjustments took";
const SAME = "the tokens clawed back from a grant equal those of its payment";
const INVOICED = "overage invoices equal the overage of closed periods plus the amount invoiced in this period";
const OVERAGE_BACK = "overage clawed back, less overage returned, equals the tokens clawed back from its invoices";

/** Changes without the service, and the invariants that they break. */
const TAMPERS = [
  ["update payment set status = 'pending' where purpose = 'top_up'", [GRANTED]],
  ["update payment set status = 'succeeded', bucket_id = null where purpose = 'top_up'", [GRANTED, PAID_FOR]],
  ["update payment set tokens = tokens + 1 where purpose = 'period'", [GRANTED]],
  ["delete from payment where purpose = 'period'", [PAID_FOR]],
  ["update payment set refunded_cents = 0 where purpose = 'top_up'", [SHARE]],
  ["update payment set refunded_cents = 0, clawed_back_tokens = 0 where purpose = 'top_up'", [SAME]],
  ["delete from payment where purpose = 'overage'", [INVOICED]],
  [
    "update payment set paid_cents = 100, refunded_cents = 1, clawed_back_tokens = tokens / 100 where purpose = 'overage'",
    [OVERAGE_BACK],
  ],
] as const;

it("the audit finds money that granted nothing, grants without money, and refunds that took nothing back", async () => {
  const fixture = createBillingFixture(db);
  const user_id = await fixture.account();
  const { paid, reference } = await fixture.orderTopUp(user_id, 200);
  const { periodPaid } = await fixture.orderSubscription(user_id, "starter");
  await fixture.applyAll([paid, fixture.refunded(reference, 50), periodPaid(1)]);
  await fixture.billing.overage.enable(user_id);
  const { posted } = await fixture.balance(user_id);
  const held = await fixture.hold(user_id, posted + 700_000);
  if (held.status !== "held") throw new Error(`not held: ${held.code}`);
  await fixture.settle(user_id, held.hold_id, posted + 700_000);
  await fixture.applyAll([periodPaid(2)]);
  expect((await fixture.ledger.audit()).violations).toEqual([]);
  for (const [text, invariants] of TAMPERS) {
    const found = await db
      .transaction(async (tx) => {
        await tx.query({ text });
        const { violations } = await createBillingFixture({ ...db, query: tx.query }).ledger.audit();
        throw violations;
      })
      .catch((violations) => violations);
    expect(found, text).toEqual(
      expect.arrayContaining(
        invariants.map((invariant) => expect.objectContaining({ invariant, account_id: user_id })),
      ),
    );
  }
  expect((await fixture.ledger.audit()).violations, "each was undone again").toEqual([]);
});
