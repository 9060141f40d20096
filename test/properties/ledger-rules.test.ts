import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyOperations, type Operation } from "../../src/account/ledger/ledger.store.ts";
import type { HoldOutcome } from "../../src/account/ledger/ledger.types.ts";
import type { Db, Sql } from "../../src/platform/db/db.ts";
import { addSeconds } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { applyWithHooks, createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";

let database: TestDatabase;
let db: Db;
let fixture: ReturnType<typeof createLedgerFixture>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  fixture = createLedgerFixture(db);
});
afterAll(async () => {
  expect((await fixture.ledger.audit()).violations).toEqual([]);
  await db.close();
  await database.drop();
});

const everything = { limit: 100, before_seq: null };
const allBuckets = { include_closed: true, limit: 100, after: null };

async function heldBy(outcome: Promise<HoldOutcome>): Promise<string> {
  const held = await outcome;
  if (held.status !== "held") throw new Error(`refused: ${held.code}`);
  return held.hold_id;
}

async function entriesOf(user_id: string) {
  return (await fixture.ledger.entries(user_id, {}, everything)).reverse();
}

async function trialAccount(tokens: number, lasting_s: number) {
  const user_id = newId();
  const trial = { ends_at: addSeconds(fixture.clock.now(), lasting_s), tokens };
  await db.transaction((tx) => fixture.ledger.openAccount(tx, { user_id, trial }));
  return user_id;
}

// contract 5: codes in order of precedence. Each row breaks its own rule, and every lower rule that it can.
test.each([
  { code: "trial_ended", trial: "ended", posted: 0, budget: 0, ask: 50 },
  { code: "key_budget_exceeded", trial: "none", posted: 0, budget: 0, ask: 50 },
  { code: "overage_cap_reached", trial: "none", posted: 10, budget: null, ask: 50, cap: 20 },
  { code: "out_of_tokens", trial: "none", posted: 0, budget: null, ask: 50 },
  { code: "in_flight_exhausted", trial: "none", posted: 60, in_flight: 30, budget: 100, ask: 50 },
  { code: "insufficient_balance", trial: "none", posted: 40, in_flight: 30, budget: 100, ask: 50 },
] as const)("$code is the reason that is given first", async (row) => {
  const user_id = row.trial === "ended" ? await trialAccount(100, 5) : await fixture.account();
  if (row.trial === "ended") fixture.pass(5);
  if (row.posted > 0) await fixture.grant(user_id, row.posted);
  if ("cap" in row) {
    await fixture.ledger.setOverage({ user_id, cap_tokens: row.cap });
  }
  if ("in_flight" in row) await heldBy(fixture.hold(user_id, row.in_flight));
  const more = { api_key_id: newId(), key_budget_tokens: row.budget };
  const held = "in_flight" in row ? row.in_flight : 0;
  const overage = "cap" in row ? row.cap : 0;
  const refused = { status: "refused", code: row.code, available: row.posted - held + overage, held };
  expect(await fixture.hold(user_id, row.ask, more)).toEqual(refused);
});

test("a hold takes less than it requests, down to its minimum, if the balance or the key's budget has no more", async () => {
  const user_id = await fixture.account(100);
  expect(await fixture.hold(user_id, 500, { minimum_tokens: 60, hold_id: newId() })).toMatchObject({
    held_tokens: 100,
  });
  const other = await fixture.account(100);
  const key = { api_key_id: newId(), key_budget_tokens: 70 };
  expect(await fixture.hold(other, 50, key)).toMatchObject({ held_tokens: 50 });
  expect(await fixture.hold(other, 50, { ...key, minimum_tokens: 20 })).toMatchObject({ held_tokens: 20 });
  expect(await fixture.hold(other, 50, { ...key, minimum_tokens: 1 })).toMatchObject({ code: "key_budget_exceeded" });
});

test("holds of one key in one batch together stay within its budget", async () => {
  const user_id = await fixture.account(1_000);
  const key = { api_key_id: newId(), key_budget_tokens: 35 };
  const outcomes = await Promise.all(Array.from({ length: 9 }, () => fixture.hold(user_id, 10, key)));
  expect(outcomes.filter(({ status }) => status === "held")).toHaveLength(3);
});

test("a free call is held and settled without a balance, and is counted, but not after the trial", async () => {
  const user_id = await fixture.account();
  const hold_id = await heldBy(fixture.hold(user_id, 0));
  expect(await fixture.settle(user_id, hold_id, 0)).toMatchObject({
    status: "settled",
    cost_tokens: 0,
    replayed: false,
  });
  expect(await fixture.ledger.usage(user_id, 1)).toMatchObject({ total_tokens_used: 120, total_cost_tokens: 0 });
  const ended = await trialAccount(10, 5);
  fixture.pass(5);
  expect(await fixture.hold(ended, 0)).toMatchObject({ code: "trial_ended" });
});

test("the oldest bucket pays first, with one entry for each bucket", async () => {
  const user_id = await fixture.account(100, 100, 100);
  const hold_id = await heldBy(fixture.hold(user_id, 150));
  await fixture.settle(user_id, hold_id, 260); // 150 held; the rest is free tokens of the second and third bucket
  const { buckets } = await fixture.ledger.buckets(user_id, allBuckets);
  expect(buckets.map(({ remaining, closed_reason }) => [remaining, closed_reason])).toEqual([
    [0, "spent"],
    [0, "spent"],
    [40, null],
  ]);
  const usage = (await entriesOf(user_id)).slice(3);
  expect(usage.map(({ type, amount, balance_after, bucket_id }) => [type, amount, balance_after, bucket_id])).toEqual([
    ["usage", -100, 200, buckets[0]?.id],
    ["usage", -100, 100, buckets[1]?.id],
    ["usage", -60, 40, buckets[2]?.id],
  ]);
});

test("a negative adjustment takes free bonuses before paid tokens, of each the oldest first, and all or nothing", async () => {
  const account = fc.record({
    buckets: fc.array(
      fc.record({
        amount: fc.integer({ min: 1, max: 50 }),
        source: fc.constantFrom("bonus", "top_up", "subscription"),
      }),
      { minLength: 1, maxLength: 6 },
    ),
    held: fc.integer({ min: 0, max: 60 }),
    asked: fc.integer({ min: 1, max: 200 }),
  });
  await fc.assert(
    fc.asyncProperty(account, async ({ buckets, held, asked }) => {
      const user_id = await fixture.account();
      for (const { amount, source } of buckets) {
        fixture.pass(1);
        const granted_at = fixture.clock.now();
        const lasting = { granted_at, expires_at: addSeconds(granted_at, 5_000_000), note: null };
        await fixture.ledger.grant({ user_id, amount_tokens: amount, source, ...lasting });
      }
      await fixture.hold(user_id, held);
      const before = (await fixture.ledger.buckets(user_id, allBuckets)).buckets;
      const free = before.map(({ remaining, held: in_use }) => remaining - in_use);
      const order = [...before.keys()].toSorted(
        (a, b) => Number(before[a]?.source !== "bonus") - Number(before[b]?.source !== "bonus") || a - b,
      );
      const expected = new Map<string, number>();
      let left = asked <= free.reduce((sum, each) => sum + each, 0) ? asked : 0;
      for (const nth of order) {
        const taken = Math.min(left, free[nth] ?? 0);
        if (taken > 0) expected.set(before[nth]?.id ?? "", -taken);
        left -= taken;
      }
      const adjustment = { user_id, amount_tokens: -asked, reason: "taken", expires_at: fixture.clock.now() };
      await db.transaction((tx) => fixture.ledger.adjust(tx, adjustment)).catch(() => {});
      const entries = (await entriesOf(user_id)).filter(({ type }) => type === "adjustment");
      expect(entries.map(({ bucket_id, amount }) => [bucket_id, amount])).toEqual([...expected]);
    }),
    { numRuns: 60 },
  );
});

test("the bucket that was granted first pays first, also if it was stored last", async () => {
  const user_id = await fixture.account(100);
  const granted_at = addSeconds(fixture.clock.now(), -60);
  const lasting = { granted_at, expires_at: addSeconds(granted_at, 5_000), note: null };
  const older = await fixture.ledger.grant({ user_id, amount_tokens: 100, source: "subscription", ...lasting });
  const hold_id = await heldBy(fixture.hold(user_id, 30));
  await fixture.settle(user_id, hold_id, 50);
  const usage = (await entriesOf(user_id)).slice(2);
  expect(usage.map(({ amount, bucket_id }) => [amount, bucket_id])).toEqual([[-50, older.id]]);
});

test("a charge waits for the disk, and a batch of holds alone does not", async () => {
  const durability = async (sql: Sql) =>
    (await sql.query({ text: "select current_setting('synchronous_commit') as is_waited_for" }))[0];
  const durabilityOf = (operation: Operation) =>
    db.transaction(async (tx) => {
      await applyOperations(tx, [operation], fixture.clock.now());
      return durability(tx);
    });
  const user_id = await fixture.account(100);
  const request = holdOf(user_id, 10);
  expect(await durabilityOf({ kind: "hold", ...request })).toEqual({ is_waited_for: "off" });
  const charge = settleOf(user_id, request.hold_id, 5);
  expect(await durabilityOf({ kind: "settle", ...charge })).toEqual(await durability(db));
});

test("a second settle of the same hold charges nothing and answers the same (lago-api#5870)", async () => {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 50));
  const first = await fixture.settle(user_id, hold_id, 30);
  expect(await fixture.settle(user_id, hold_id, 45)).toEqual({ ...first, replayed: true });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 70, held: 0 });
});

test("a second hold with the same id is the same hold, and a settled call is not held again", async () => {
  const user_id = await fixture.account(100);
  const request = holdOf(user_id, 60);
  const first = await fixture.ledger.hold(request);
  expect(await fixture.ledger.hold(request)).toEqual(first);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ held: 60 });
  await fixture.settle(user_id, request.hold_id, 60);
  expect(await fixture.ledger.hold(request)).toEqual(first);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 40, held: 0 });
});

test("a cost that no balance covers is absorbed with an entry of its own, never clamped (lago-api#4985, new-api#6911)", async () => {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 80));
  expect(await fixture.settle(user_id, hold_id, 130)).toEqual({
    status: "settled",
    cost_tokens: 130,
    charged_tokens: 100,
    overage_tokens: 0,
    absorbed_tokens: 30,
    replayed: false,
  });
  const lines = (await entriesOf(user_id)).slice(1);
  expect(lines.map(({ type, amount, balance_after }) => [type, amount, balance_after])).toEqual([
    ["usage", -100, 0],
    ["absorbed", -30, 0],
  ]);
});

test("overage pays what the balance does not cover, up to its cap", async () => {
  const user_id = await fixture.account(100);
  await fixture.ledger.setOverage({ user_id, cap_tokens: 50 });
  const hold_id = await heldBy(fixture.hold(user_id, 120));
  expect(await fixture.hold(user_id, 31)).toMatchObject({ code: "in_flight_exhausted" });
  const outcome = await fixture.settle(user_id, hold_id, 160);
  expect(outcome).toMatchObject({ charged_tokens: 100, overage_tokens: 50, absorbed_tokens: 10 });
});

test("a cap below its use takes nothing from the balance, and a refusal because of open holds is in_flight_exhausted", async () => {
  const user_id = await fixture.account(100);
  await fixture.ledger.setOverage({ user_id, cap_tokens: 200 });
  await fixture.settle(user_id, newId(), 250);
  await fixture.grant(user_id, 50);
  await fixture.ledger.setOverage({ user_id, cap_tokens: 10 });
  await heldBy(fixture.hold(user_id, 50));
  expect(await fixture.hold(user_id, 40)).toMatchObject({ code: "in_flight_exhausted", available: 0, held: 50 });
  expect(await fixture.hold(user_id, 51)).toMatchObject({ code: "overage_cap_reached" });
});

test("an expired bucket never counts, before any sweep, and its expiry entry has the instant at which it expired", async () => {
  const user_id = await fixture.account(100);
  const short = await fixture.grant(user_id, 40, 10);
  expect((await fixture.ledger.accountStatus(user_id)).posted).toBe(140);
  fixture.pass(15);
  expect((await fixture.ledger.accountStatus(user_id)).posted).toBe(100);
  expect(await fixture.hold(user_id, 101)).toMatchObject({ code: "insufficient_balance", available: 100 });
  fixture.pass(1_000);
  await fixture.ledger.sweep();
  const expiry = (await entriesOf(user_id)).at(-1);
  expect(expiry).toMatchObject({ type: "expiry", amount: -40, created_at: short.expires_at, bucket_id: short.id });
  expect((await fixture.ledger.buckets(user_id, allBuckets)).buckets[1]).toMatchObject({ closed_reason: "expired" });
});

test("a slice that is held when its bucket expires stays spendable, and its unspent rest expires at the settle", async () => {
  const user_id = await fixture.account();
  await fixture.grant(user_id, 100, 10);
  const hold_id = await heldBy(fixture.hold(user_id, 60));
  fixture.pass(10);
  await fixture.ledger.sweep();
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 0, available: 0 });
  expect(await fixture.settle(user_id, hold_id, 25)).toMatchObject({ charged_tokens: 25, absorbed_tokens: 0 });
  const lines = (await entriesOf(user_id)).slice(1);
  expect(lines.map(({ type, amount }) => [type, amount])).toEqual([
    ["expiry", -40],
    ["usage", -25],
    ["expiry", -35],
  ]);
});

test("a released hold gives everything back, and releasing it again is harmless", async () => {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 100));
  await fixture.ledger.release({ user_id, hold_id });
  await fixture.ledger.release({ user_id, hold_id });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 100, held: 0, available: 100 });
});

test("a hold that is released and settled in the same batch ends once", async () => {
  const user_id = await fixture.account(100);
  await heldBy(fixture.hold(user_id, 40));
  const hold_id = await heldBy(fixture.hold(user_id, 20));
  const release = () => fixture.ledger.release({ user_id, hold_id });
  await Promise.all([release(), release(), fixture.settle(user_id, hold_id, 20), fixture.settle(user_id, hold_id, 20)]);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 80, held: 40, available: 40 });
});

test("the sweep releases a dead hold, and its late settle is still charged (new-api#4429)", async () => {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 80));
  await fixture.ledger.sweep();
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ held: 80 });
  await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [hold_id] });
  await fixture.ledger.sweep();
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ held: 0, available: 100 });
  expect(await fixture.settle(user_id, hold_id, 70)).toMatchObject({ charged_tokens: 70 });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 30 });
});

test("a settle's hook that answers no undoes the charge and releases the hold; a hook that answers yes commits with it", async () => {
  await db.query({ text: "create table carried_out (step text primary key)" });
  await db.query({
    text: `create function carry_out(arguments jsonb) returns jsonb language sql as $$
      insert into carried_out select argument ->> 'step' from jsonb_array_elements(arguments) as argument where argument ->> 'step' <> 'stale';
      select jsonb_agg(jsonb_build_object('done', argument ->> 'step' <> 'stale')) from jsonb_array_elements(arguments) as argument
    $$`,
  });
  const fixture = createLedgerFixture(db, undefined, [], applyWithHooks("carry_out"));
  const user_id = await fixture.account(100);
  const stale = await heldBy(fixture.hold(user_id, 40));
  const hook = (step: string) => ({ hook: { kind: "carry_out", argument: { step } } });
  expect(await fixture.settle(user_id, stale, 40, hook("stale"))).toEqual({ status: "superseded" });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 100, held: 0 });
  const good = await heldBy(fixture.hold(user_id, 40));
  expect(await fixture.settle(user_id, good, 40, hook("good"))).toMatchObject({ charged_tokens: 40 });
  expect(await fixture.settle(user_id, good, 40, hook("good"))).toMatchObject({ replayed: true });
  expect(await db.query({ text: "select step from carried_out" })).toEqual([{ step: "good" }]);
});

test("a hook that answers no undoes its hold; a refused hold whose hook answers yes still commits the hook's writes", async () => {
  await db.query({ text: "create table begun (step text primary key)" });
  await db.query({
    text: `create function begin_of_test(arguments jsonb) returns jsonb language sql as $$
      insert into begun select argument ->> 'step' from jsonb_array_elements(arguments) as argument where argument ->> 'step' <> 'stale';
      select jsonb_agg(jsonb_build_object('done', argument ->> 'step' <> 'stale', 'state', argument ->> 'step'))
        from jsonb_array_elements(arguments) as argument
    $$`,
  });
  const fixture = createLedgerFixture(db, undefined, [], applyWithHooks("begin_of_test"));
  const user_id = await fixture.account(100);
  const hook = (step: string) => ({ hook: { kind: "begin", argument: { step } } });
  const holds = [
    fixture.hold(user_id, 40, hook("good")),
    fixture.hold(user_id, 30, hook("stale")),
    fixture.hold(user_id, 90, { minimum_tokens: 90, ...hook("dear") }),
  ];
  const [good, stale, dear] = await Promise.allSettled(holds);
  expect(good).toMatchObject({ value: { status: "held", held_tokens: 40 } });
  expect(stale).toMatchObject({ reason: { answer: { done: false, state: "stale" } } });
  expect(dear).toMatchObject({ value: { status: "refused" } });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 100, held: 40 });
  expect(await db.query({ text: "select step from begun order by step" })).toEqual([
    { step: "dear" },
    { step: "good" },
  ]);
});

test("a grant with a key is made once and notifies its listeners, and a purchase ends the trial", async () => {
  const user_id = await trialAccount(10, 1_000);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ is_trial: true, posted: 10 });
  const reported: string[] = [];
  fixture.ledger.onGrant(async (id) => void reported.push(id));
  const granted_at = fixture.clock.now();
  const lasting = { granted_at, expires_at: addSeconds(granted_at, 5_000), note: "Invoice 7" };
  const request = { user_id, amount_tokens: 500, source: "top_up" as const, grant_key: "payment:7", ...lasting };
  const bucket = await fixture.ledger.grant(request);
  expect(await fixture.ledger.grant(request)).toEqual(bucket);
  await db.transaction((tx) => fixture.ledger.grant(request, tx));
  expect(reported).toEqual([user_id, user_id]);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ is_trial: false, posted: 510 });
  fixture.pass(2_000);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ refusal: null, posted: 500 });
});

test("a grant repays debt first, with entries of both in the ledger", async () => {
  const user_id = await fixture.account();
  const { id: bucket_id } = await fixture.grant(user_id, 30);
  await fixture.settle(user_id, newId(), 30);
  await fixture.ledger.clawBack({ user_id, bucket_id, amount_tokens: 30, reason: "Refunded", key: "refund" });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 0, debt: 30 });
  expect(await fixture.grant(user_id, 100)).toMatchObject({ original_amount: 100, remaining: 70 });
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 70, debt: 0 });
  expect((await entriesOf(user_id)).map(({ balance_after }) => balance_after)).toEqual([30, 0, -30, 70, 40, 70]);
});

test("one invalid operation fails alone; the others of its batch succeed", async () => {
  const user_id = await fixture.account(1_000);
  const good = Array.from({ length: 9 }, () => newId());
  const poison = settleOf(user_id, newId(), -5);
  const settles = good.map((hold_id) => fixture.settle(user_id, hold_id, 10));
  const strangers = fixture.hold(newId(), 10);
  const outcomes = await Promise.allSettled([...settles, fixture.ledger.settle(poison), strangers]);
  expect(outcomes.map(({ status }) => status)).toEqual([...good.map(() => "fulfilled"), "rejected", "rejected"]);
  expect(await fixture.ledger.accountStatus(user_id)).toMatchObject({ posted: 910 });
});
