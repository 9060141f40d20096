import { afterAll, beforeAll, expect, test } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";

// How the ledger stores a call's classes of input and its upstream cost, and how its audit checks them.

let database: TestDatabase;
let db: Db;
let fixture: ReturnType<typeof createLedgerFixture>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  fixture = createLedgerFixture(db);
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** 100 of input: 40 fresh at 1, 20 cached at 0.1, 30 written at 1.25 and 10 for an hour at 2; 5 of output at 4. */
const MIX = {
  input_tokens: 100,
  cached_input_tokens: 20,
  cache_write_tokens: 40,
  cache_write_1h_tokens: 10,
  output_tokens: 5,
  input_rate_micro: 1_000_000,
  cached_input_rate_micro: 100_000,
  cache_write_rate_micro: 1_250_000,
  cache_write_1h_rate_micro: 2_000_000,
  output_rate_micro: 4_000_000,
  upstream_cost_micro_usd: 777,
};
const COST = 40 + 2 + 38 + 20 + 20; // the sum of 119.5 is rounded up once
const dayOf = (user_id: string) =>
  db.query({
    text: `select requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost, upstream_cost_micro_usd
      from usage_daily where user_id = $1`,
    values: [user_id],
  });

test("a charge stores its counts, rates and upstream cost, and the day's usage adds them up", async () => {
  const user_id = await fixture.account(1_000);
  const hold_id = newId();
  await fixture.settle(user_id, hold_id, COST, MIX);
  await fixture.settle(user_id, newId(), COST, { ...MIX, upstream_cost_micro_usd: null });
  const [stored] = await db.query({ text: "select * from usage_event where hold_id = $1", values: [hold_id] });
  expect(stored).toMatchObject({ ...MIX, cost: COST });
  expect(await dayOf(user_id)).toEqual([
    {
      requests: 2,
      input_tokens: 200,
      cached_input_tokens: 40,
      cache_write_tokens: 80,
      output_tokens: 10,
      cost: 2 * COST,
      upstream_cost_micro_usd: 777,
    },
  ]);
  expect(await fixture.ledger.audit()).toMatchObject({ ok: true });
});

test("the late settle of a lost call replaces the classes and the upstream cost of its progress", async () => {
  const user_id = await fixture.account(1_000);
  const hold_id = newId();
  await fixture.hold(user_id, 500, { hold_id });
  const charge = settleOf(user_id, hold_id, 41, {
    ...MIX,
    input_tokens: 41,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 0,
    upstream_cost_micro_usd: 41,
  });
  await fixture.ledger.progress([{ user_id, hold_id, charge }]);
  await db.query({ text: "update hold set expires_at = now() - interval '1 minute'" });
  await fixture.ledger.sweep();
  expect(await dayOf(user_id)).toMatchObject([{ cost: 41, cache_write_tokens: 0, upstream_cost_micro_usd: 41 }]);
  await fixture.settle(user_id, hold_id, COST, MIX);
  expect(await dayOf(user_id)).toMatchObject([{ cost: COST, cache_write_tokens: 40, upstream_cost_micro_usd: 777 }]);
  expect(await fixture.ledger.audit()).toMatchObject({ ok: true });
});

const PRICED = "a charge costs its tokens at its rates, rounded up once";
const SUMMED = "the daily usage is the sum of the usage events";
test.each([
  ["usage_event", "cached_input_tokens", PRICED],
  ["usage_event", "cache_write_tokens", PRICED],
  ["usage_event", "cache_write_1h_tokens", PRICED],
  ["usage_event", "cache_write_rate_micro", PRICED],
  ["usage_event", "cache_write_1h_rate_micro", PRICED],
  ["usage_event", "upstream_cost_micro_usd", SUMMED],
  ["usage_daily", "cache_write_tokens", SUMMED],
  ["usage_daily", "upstream_cost_micro_usd", SUMMED],
])("the audit finds a %s whose %s was altered", async (table, column, invariant) => {
  const user_id = await fixture.account(1_000);
  await fixture.settle(user_id, newId(), COST, MIX);
  const change = (by: number) => {
    const amount = column.endsWith("_micro") ? by * 100_000 : by;
    return db.query({
      text: `update ${table} set ${column} = ${column} + ${amount} where user_id = $1`,
      values: [user_id],
    });
  };
  await change(10);
  const { violations } = await fixture.ledger.audit();
  expect(violations).toContainEqual(expect.objectContaining({ invariant, account_id: user_id }));
  await change(-10);
  expect(await fixture.ledger.audit()).toMatchObject({ ok: true });
});

test("the database rejects classes that add up to more than the input", async () => {
  const user_id = await fixture.account(1_000);
  const wrong = { ...MIX, cached_input_tokens: 61 };
  await expect(fixture.settle(user_id, newId(), COST, wrong)).rejects.toThrow("usage_event_input_parts_check");
});
