import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALERT_PERCENTS } from "../../src/kernel/constants.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";

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

/** The result of one SQL function. */
async function call(text: string, ...values: unknown[]): Promise<unknown> {
  const [row] = await db.query<{ answer: unknown }>({ text: `select ${text} as answer`, values });
  return row?.answer;
}

test.each([
  ["in_flight_exhausted", { posted: 100, cap: null, used: 0, least: 40 }],
  ["in_flight_exhausted", { posted: 10, cap: 50, used: 10, least: 50 }],
  ["overage_cap_reached", { posted: 0, cap: 50, used: 30, least: 40 }],
  ["out_of_tokens", { posted: 0, cap: null, used: 0, least: 1 }],
  ["insufficient_balance", { posted: 39, cap: null, used: 0, least: 40 }],
])("ledger_refusal returns %s for %o", async (code, { posted, cap, used, least }) => {
  expect(await call("ledger_refusal($1, $2, $3, $4)", posted, cap, used, least)).toBe(code);
});

describe("thresholds", () => {
  test("are the same in constants.ts and in SQL functions, also where SQL has fractions", async () => {
    expect(await call("ledger_thresholds()")).toEqual([...ALERT_PERCENTS]);
    const reached = (used: number) => call("ledger_used_percent(100, $1)", 100 - used);
    const reached_at = await Promise.all(Array.from({ length: 101 }, (_, used) => reached(used)));
    expect(reached_at).toEqual(
      Array.from({ length: 101 }, (_, used) => ALERT_PERCENTS.findLast((percent) => used >= percent) ?? 0),
    );
  });

  const percents = (crossings: unknown) => ((crossings ?? []) as { percent: number }[]).map(({ percent }) => percent);

  test.each([
    [0, 80, [50, 80]],
    [50, 50, []],
    [80, 100, [100]],
  ])("ledger_balance_crossings from %i to %i per cent are %o", async (told, reached, expected) => {
    const crossings = await call(
      "to_json(ledger_balance_crossings($1, 1, null, $2, $3, 100, 7))",
      newId(),
      told,
      reached,
    );
    expect(percents(crossings)).toEqual(expected);
  });

  test.each([
    [40, 85, 100, [50, 80]],
    [50, 79, 100, []],
    [0, 250, 100, [50, 80, 100]],
  ])("ledger_charge_crossings from %i to %i of %i are %o", async (before, after, whole, expected) => {
    const text = "to_json(ledger_charge_crossings($1, 1, 'overage', $1, $2, $3, $4, '{}'))";
    expect(percents(await call(text, newId(), before, after, whole))).toEqual(expected);
  });
});

test("ledger_key_budget_use and ledger_agent_use count charges and holds, also unwritten ones of the batch", async () => {
  const user_id = await fixture.account(1_000);
  const mine = { api_key_id: newId(), agent_id: newId(), key_budget_tokens: 500 };
  const first = await fixture.hold(user_id, 100, mine);
  if (first.status !== "held") throw new Error(first.code);
  await fixture.hold(user_id, 30, mine);
  await fixture.settle(user_id, first.hold_id, 60, mine);
  const key_use = "to_json(ledger_key_budget_use($1, $2, $3, $4))";
  const now = fixture.clock.now();
  expect(await call(key_use, user_id, mine.api_key_id, null, now)).toEqual({ spent: 60, held: 30 });
  expect(await call(key_use, user_id, mine.api_key_id, "day", now)).toEqual({ spent: 60, held: 30 });
  expect(await call(key_use, user_id, mine.api_key_id, "day", "2026-03-02T00:00:00Z")).toEqual({ spent: 0, held: 30 });
  const use = "to_json(ledger_agent_use($1, $2, $3, null, null, $4))";
  expect(await call(use, user_id, mine.agent_id, "2026-03-01", null)).toEqual({ spent: 60, held: 30 });
  expect(await call(use, user_id, mine.agent_id, "2026-03-02", null)).toEqual({ spent: 0, held: 30 });
  const [open] = await db.query<{ id: string }>({ text: "select id from hold where user_id = $1", values: [user_id] });
  expect(await call(use, user_id, mine.agent_id, "2026-03-01", [open?.id])).toEqual({ spent: 60, held: 0 });
});

test("ledger_lock closes expired buckets, and returns the accounts in the order of their ids", async () => {
  const users = [await fixture.account(100), await fixture.account(100)];
  const later = "2026-06-01T00:00:00.000Z";
  const accounts = await call("to_json(ledger_lock($1::uuid[], $2))", users.toReversed(), later);
  expect(accounts).toMatchObject(users.toSorted().map((user_id) => ({ user_id, posted: 0, seq: 2 })));
});

test("ledger_lock_hooks returns the hooks of operations that are new, by their positions", async () => {
  const user_id = await fixture.account(1_000);
  const done = await fixture.hold(user_id, 10);
  if (done.status !== "held") throw new Error(done.code);
  const hook = (argument: number) => ({ kind: "step", argument });
  const operations = [
    { kind: "hold", ...holdOf(user_id, 10, { hold_id: done.hold_id }) },
    { kind: "hold", ...holdOf(user_id, 10) },
    { kind: "settle", ...settleOf(user_id, newId(), 5) },
  ];
  const hooks = JSON.stringify([hook(1), null, hook(3)]);
  const text = "ledger_lock_hooks($1::json, $2, $3::jsonb, $4)";
  const open = await call(text, JSON.stringify(operations), [user_id], hooks, "2026-03-01T12:00:00.000Z");
  expect(open).toEqual([{ place: 3, kind: "step", argument: 3 }]);
});

test("a batch of many calls with one key holds no more than the key's budget, and reports each threshold once", async () => {
  const user_id = await fixture.account(10_000);
  const key = { api_key_id: newId(), key_budget_tokens: 100 };
  const holds = await Promise.all(Array.from({ length: 30 }, () => fixture.hold(user_id, 10, key)));
  const held = holds.flatMap((outcome) => (outcome.status === "held" ? [outcome.hold_id] : []));
  expect(held).toHaveLength(10);
  await Promise.all(held.map((hold_id) => fixture.settle(user_id, hold_id, 10, key)));
  const spends = await fixture.ledger.keySpends({ user_ids: [user_id], ids: [key.api_key_id] });
  expect(spends.get(key.api_key_id)?.spent).toBe(100);
  const text = "select percent from crossing where user_id = $1 and kind = 'key_budget' order by percent";
  const crossed = await db.query({ text, values: [user_id] });
  expect(crossed).toEqual([{ percent: 50 }, { percent: 80 }, { percent: 100 }]);
});
