import { afterAll, beforeAll, expect, test } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";

let database: TestDatabase;
const nodes: Db[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  nodes.push(await database.open());
  // Embedded storage belongs to one process; there the two nodes are two ledgers over it.
  nodes.push(database.kind === "postgres" ? await database.open() : (nodes[0] as Db));
});
afterAll(async () => {
  for (const db of new Set(nodes)) await db.close();
  await database.drop();
});

const worlds = () => nodes.map((db) => createLedgerFixture(db));

test("a hundred concurrent calls on two nodes never overdraw an account (litellm#34732, #40095)", async () => {
  const [one, two] = worlds();
  if (one === undefined || two === undefined) throw new Error("two nodes");
  const user_id = await one.account(300, 300, 400);
  two.clock.put(one.clock.now());
  const charges = await Promise.all(
    Array.from({ length: 100 }, async (_, n) => {
      const world = n % 2 === 0 ? one : two;
      const held = await world.hold(user_id, 30);
      if (held.status === "refused") return 0;
      const settled = await world.settle(user_id, held.hold_id, 20 + (n % 11));
      if (settled.status !== "settled") throw new Error(settled.status);
      expect(settled.absorbed_tokens).toBe(0);
      return settled.charged_tokens;
    }),
  );
  const charged = charges.reduce((sum, tokens) => sum + tokens, 0);
  expect(charged).toBeGreaterThanOrEqual(33 * 20); // at least the 33 holds that fit at once
  expect(await one.ledger.accountStatus(user_id)).toMatchObject({ posted: 1_000 - charged, held: 0 });
  expect((await one.ledger.audit()).violations).toEqual([]);
});

test("concurrent calls, adjustments and expiries on two nodes take no token twice and make no debt", async () => {
  const [one, two] = worlds();
  if (one === undefined || two === undefined) throw new Error("two nodes");
  const user_id = await one.account(300, 300, 400);
  two.clock.put(one.clock.now());
  const page = { include_closed: true, limit: 10, after: null };
  const opened = (await one.ledger.accountStatus(user_id)).posted;
  const [first] = (await one.ledger.buckets(user_id, page)).buckets;
  const expires_at = first?.expires_at ?? "";
  let [spent, adjusted] = [0, 0];
  const steps = [
    async (world: typeof one) => {
      const held = await world.hold(user_id, 30);
      if (held.status === "refused") return;
      const settled = await world.settle(user_id, held.hold_id, 20);
      if (settled.status === "settled") spent += settled.charged_tokens;
    },
    async (world: typeof one, db: Db) => {
      const adjustment = { user_id, amount_tokens: -25, reason: "taken", expires_at };
      const taken = db.transaction((tx) => world.ledger.adjust(tx, adjustment)).then(() => true);
      if (await taken.catch(() => false)) adjusted -= 25;
    },
    async (world: typeof one, db: Db) => {
      const adjustment = { user_id, amount_tokens: 10, reason: "given", expires_at };
      await db.transaction((tx) => world.ledger.adjust(tx, adjustment));
      adjusted += 10;
    },
  ];
  const closing = async () => {
    const close = { user_id, bucket_id: first?.id ?? "", reason: "closed" };
    const taken = await (nodes[1] as Db).transaction((tx) => two.ledger.closeBucket(tx, close));
    adjusted -= taken ?? 0;
  };
  const work = Array.from({ length: 45 }, (_, n) => steps[n % 3]?.(n % 2 === 0 ? one : two, nodes[n % 2] as Db));
  await Promise.all([...work, closing()]);
  one.pass(0.001);
  await one.ledger.sweep();
  const entries = await one.ledger.entries(user_id, { type: "expiry" }, { limit: 100, before_seq: null });
  const expired = entries.reduce((sum, { amount }) => sum + amount, 0);
  expect(await one.ledger.accountStatus(user_id)).toMatchObject({
    posted: opened - spent + adjusted + expired,
    held: 0,
    debt: 0,
  });
  expect((await one.ledger.audit()).violations).toEqual([]);
});

test("if two nodes settle one hold many times, exactly one settle charges", async () => {
  const [one, two] = worlds();
  if (one === undefined || two === undefined) throw new Error("two nodes");
  const user_id = await one.account(1_000);
  two.clock.put(one.clock.now());
  for (let round = 0; round < 10; round += 1) {
    const hold_id = newId();
    await one.hold(user_id, 50, { hold_id });
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? one : two).settle(user_id, hold_id, 40)),
    );
    expect(outcomes.filter((outcome) => outcome.status === "settled" && !outcome.replayed)).toHaveLength(1);
  }
  expect(await one.ledger.accountStatus(user_id)).toMatchObject({ posted: 600, held: 0 });
});

test("two nodes that charge the same accounts in opposite orders never deadlock", async () => {
  const [one, two] = worlds();
  if (one === undefined || two === undefined) throw new Error("two nodes");
  const accounts = await Promise.all(Array.from({ length: 8 }, () => one.account(1_000)));
  two.clock.put(one.clock.now());
  const charge = (world: typeof one, order: string[]) =>
    Promise.all(order.flatMap((user_id) => Array.from({ length: 10 }, () => world.settle(user_id, newId(), 1))));
  await Promise.all([
    charge(one, accounts),
    charge(two, accounts.toReversed()),
    one.ledger.sweep(),
    two.ledger.sweep(),
  ]);
  for (const user_id of accounts) expect(await one.ledger.accountStatus(user_id)).toMatchObject({ posted: 980 });
  expect((await one.ledger.audit()).violations).toEqual([]);
});
