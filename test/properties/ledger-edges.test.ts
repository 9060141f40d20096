import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HoldOutcome } from "../../src/account/ledger/ledger.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addMonths, addSeconds } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { instantOf } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";

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
const statusOf = (user_id: string) => fixture.ledger.accountStatus(user_id);

async function heldBy(outcome: Promise<HoldOutcome>): Promise<string> {
  const held = await outcome;
  if (held.status !== "held") throw new Error(`refused: ${held.code}`);
  return held.hold_id;
}

async function linesOf(user_id: string) {
  const entries = await fixture.ledger.entries(user_id, {}, everything);
  return entries.reverse().map(({ type, amount, balance_after }) => [type, amount, balance_after]);
}

async function grantUntil(user_id: string, amount_tokens: number, expires_at: string) {
  const granted_at = fixture.clock.now();
  return fixture.ledger.grant({ user_id, amount_tokens, source: "subscription", granted_at, expires_at, note: null });
}

describe("an expiry", () => {
  test.each([
    {
      of: "a month from 31 January",
      granted: "2027-01-31T08:00:00.000Z",
      months: 1,
      expires: "2027-02-28T08:00:00.000Z",
    },
    {
      of: "a month into a leap day",
      granted: "2028-01-31T08:00:00.000Z",
      months: 1,
      expires: "2028-02-29T08:00:00.000Z",
    },
    {
      of: "a year from a leap day",
      granted: "2028-02-29T08:00:00.000Z",
      months: 12,
      expires: "2029-02-28T08:00:00.000Z",
    },
    {
      of: "four months over a year's end",
      granted: "2029-10-31T23:59:59.999Z",
      months: 4,
      expires: "2030-02-28T23:59:59.999Z",
    },
  ])(
    "of $of happens at its exact instant: tokens are spendable a millisecond before, and not at the instant",
    async ({ granted, months, expires }) => {
      const world = createLedgerFixture(db, granted);
      const user_id = await world.account();
      const grant = { user_id, amount_tokens: 100, source: "subscription" as const, granted_at: granted, note: null };
      const bucket = await world.ledger.grant({ ...grant, expires_at: addMonths(granted, months) });
      expect(bucket.expires_at).toBe(expires);
      world.clock.put(instantOf(Date.parse(expires) - 1));
      const hold_id = await heldBy(world.hold(user_id, 40));
      await world.ledger.release({ user_id, hold_id });
      expect(await world.ledger.nextDueAt(addSeconds(expires, 1))).toBe(expires);
      world.clock.put(expires);
      expect(await world.hold(user_id, 1)).toMatchObject({ status: "refused", code: "out_of_tokens" });
      expect(await world.ledger.accountStatus(user_id)).toMatchObject({ posted: 0, available: 0 });
      const [entry] = await world.ledger.entries(user_id, { type: "expiry" }, everything);
      expect(entry).toMatchObject({ amount: -100, created_at: expires });
    },
  );

  test("on a leap day is in the usage of that day", async () => {
    const world = createLedgerFixture(db, "2028-02-29T23:59:59.999Z");
    const user_id = await world.account();
    await world.settle(user_id, newId(), 5);
    world.clock.put("2028-03-01T00:00:00.000Z");
    await world.settle(user_id, newId(), 7);
    const { daily_usage } = await world.ledger.usage(user_id, 3);
    expect(daily_usage.map(({ date, cost_tokens }) => [date, cost_tokens])).toEqual([
      ["2028-02-28", 0],
      ["2028-02-29", 5],
      ["2028-03-01", 7],
    ]);
  });

  test("during a call leaves the held slice to the call, which uses the slice before a renewal's bucket", async () => {
    const user_id = await fixture.account();
    const old = await grantUntil(user_id, 100, addSeconds(fixture.clock.now(), 60));
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    fixture.clock.put(old.expires_at);
    const renewed = await grantUntil(user_id, 100, addMonths(fixture.clock.now(), 1));
    expect(await statusOf(user_id)).toMatchObject({ posted: 100, held: 0, available: 100 });
    await fixture.settle(user_id, hold_id, 90); // 80 of the old bucket, 10 of the new
    const { buckets } = await fixture.ledger.buckets(user_id, allBuckets);
    expect(buckets.map(({ id, remaining, closed_reason }) => [id, remaining, closed_reason])).toEqual([
      [old.id, 0, "expired"],
      [renewed.id, 90, null],
    ]);
  });
});

describe("a claw-back", () => {
  const reverse = (user_id: string, bucket_id: string, amount_tokens: number, key: string) => ({
    user_id,
    bucket_id,
    amount_tokens,
    reason: "Refunded",
    key,
  });

  test("larger than the rest of a grant takes the rest, and makes the spent part debt that the next grant repays (eliza#10920)", async () => {
    const user_id = await fixture.account();
    const bucket = await fixture.grant(user_id, 100);
    await fixture.settle(user_id, newId(), 70);
    const request = reverse(user_id, bucket.id, 100, "refund 1");
    expect(await fixture.ledger.clawBack(request)).toEqual({ reversed_tokens: 100, debt_tokens: 70 });
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, debt: 70, refusal: "out_of_tokens" });
    expect(await fixture.hold(user_id, 1)).toMatchObject({ code: "out_of_tokens" });
    await fixture.grant(user_id, 50);
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, debt: 20, refusal: "out_of_tokens" });
    await fixture.grant(user_id, 50);
    expect(await statusOf(user_id)).toMatchObject({ posted: 30, debt: 0 });
  });

  test("counts once for each key, adds up, and never takes more than was granted (opencode#28402)", async () => {
    const user_id = await fixture.account();
    const bucket = await fixture.grant(user_id, 100);
    const first = await fixture.ledger.clawBack(reverse(user_id, bucket.id, 60, "refund 1"));
    expect(await fixture.ledger.clawBack(reverse(user_id, bucket.id, 60, "refund 1"))).toEqual(first);
    const second = await fixture.ledger.clawBack(reverse(user_id, bucket.id, 60, "refund 2"));
    expect(second).toEqual({ reversed_tokens: 40, debt_tokens: 0 });
    expect(await fixture.ledger.clawBack(reverse(user_id, bucket.id, 1, "refund 3"))).toMatchObject({
      reversed_tokens: 0,
    });
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, debt: 0 });
    const { buckets } = await fixture.ledger.buckets(user_id, allBuckets);
    expect(buckets[0]).toMatchObject({ remaining: 0, closed_reason: "clawed_back" });
  });

  test("waits for tokens that a call holds: unspent ones are taken when the call ends, spent ones become debt", async () => {
    const user_id = await fixture.account();
    const bucket = await fixture.grant(user_id, 100);
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    await fixture.ledger.clawBack(reverse(user_id, bucket.id, 100, "refund 1"));
    expect(await statusOf(user_id)).toMatchObject({ posted: 80, held: 80, available: 0, debt: 0 });
    expect(await fixture.settle(user_id, hold_id, 30)).toMatchObject({ charged_tokens: 30, absorbed_tokens: 0 });
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, held: 0, debt: 30 });
    expect(await linesOf(user_id)).toEqual([
      ["grant", 100, 100],
      ["clawback", -20, 80],
      ["usage", -30, 50],
      ["clawback", -50, 0],
      ["clawback", -30, -30],
    ]);
  });

  test("of tokens that expired unspent costs the user nothing more", async () => {
    const user_id = await fixture.account();
    const bucket = await fixture.grant(user_id, 100, 10);
    await fixture.settle(user_id, newId(), 25);
    fixture.pass(10);
    expect(await fixture.ledger.clawBack(reverse(user_id, bucket.id, 60, "refund 1"))).toMatchObject({
      debt_tokens: 0,
    });
    expect(await fixture.ledger.clawBack(reverse(user_id, bucket.id, 40, "refund 2"))).toMatchObject({
      debt_tokens: 25,
    });
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, debt: 25 });
  });

  test("that is reversed reduces debt first and returns the rest, never more than was clawed back", async () => {
    const user_id = await fixture.account();
    const bucket = await fixture.grant(user_id, 100);
    await fixture.settle(user_id, newId(), 30);
    await fixture.ledger.clawBack(reverse(user_id, bucket.id, 100, "dispute"));
    const won = reverse(user_id, bucket.id, 500, "dispute won");
    expect(await fixture.ledger.reinstate(won)).toEqual({ reversed_tokens: 100, debt_tokens: 30 });
    expect(await fixture.ledger.reinstate(won)).toEqual({ reversed_tokens: 100, debt_tokens: 30 });
    expect(await statusOf(user_id)).toMatchObject({ posted: 70, debt: 0 });
  });
});

describe("overage", () => {
  test("whose cap is reached during a call is charged up to the cap; the rest is absorbed", async () => {
    const user_id = await fixture.account(10);
    await fixture.ledger.setOverage({ user_id, cap_tokens: 50 });
    const stream = await heldBy(fixture.hold(user_id, 30)); // 10 of the bucket, 20 of overage
    const other = await heldBy(fixture.hold(user_id, 30));
    expect(await fixture.hold(user_id, 1)).toMatchObject({ code: "in_flight_exhausted" });
    expect(await fixture.settle(user_id, stream, 45)).toMatchObject({ overage_tokens: 20, absorbed_tokens: 15 });
    expect(await fixture.settle(user_id, other, 30)).toMatchObject({ overage_tokens: 30, absorbed_tokens: 0 });
    expect(await fixture.hold(user_id, 1)).toMatchObject({ code: "overage_cap_reached" });
  });

  test("that is turned off during a call, or capped below its use, still pays for that call", async () => {
    const user_id = await fixture.account();
    await fixture.ledger.setOverage({ user_id, cap_tokens: 100 });
    const [one, two] = [await heldBy(fixture.hold(user_id, 40)), await heldBy(fixture.hold(user_id, 40))];
    await fixture.ledger.setOverage({ user_id, cap_tokens: 10 });
    expect(await fixture.settle(user_id, one, 40)).toMatchObject({ overage_tokens: 40, absorbed_tokens: 0 });
    await fixture.ledger.setOverage({ user_id, cap_tokens: null });
    expect(await fixture.settle(user_id, two, 60)).toMatchObject({ overage_tokens: 40, absorbed_tokens: 20 });
    expect(await fixture.ledger.overage(user_id)).toEqual({ cap_tokens: null, used_tokens: 80, held_tokens: 0 });
  });

  test("of a period that ends is returned, and the next period begins with the carried use and the open holds", async () => {
    const user_id = await fixture.account();
    await fixture.ledger.setOverage({ user_id, cap_tokens: 100 });
    await fixture.settle(user_id, newId(), 70);
    const hold_id = await heldBy(fixture.hold(user_id, 30));
    expect(await fixture.ledger.accountsWithOverage(70)).toContainEqual({ user_id });
    const close = (carried_tokens: number) => fixture.ledger.closeOveragePeriod({ user_id, carried_tokens });
    await expect(close(71)).rejects.toThrow(RangeError);
    expect(await close(20)).toEqual({ used_tokens: 70 });
    expect(await fixture.ledger.overage(user_id)).toEqual({ cap_tokens: 100, used_tokens: 20, held_tokens: 30 });
    expect(await fixture.settle(user_id, hold_id, 30)).toMatchObject({ overage_tokens: 30 });
    expect(await fixture.ledger.accountsWithOverage(70)).not.toContainEqual({ user_id });
  });
});

test("a key's budget that is reached during calls refuses the next call, and charges the cost of those calls", async () => {
  const user_id = await fixture.account(1_000);
  const key = { api_key_id: newId(), key_budget_tokens: 100 };
  const hold_id = await heldBy(fixture.hold(user_id, 60, key));
  expect(await fixture.hold(user_id, 60, key)).toMatchObject({ code: "key_budget_exceeded", available: 40 });
  // The call cost more than was held. It was made, so the user pays for it.
  const charge = { api_key_id: key.api_key_id };
  expect(await fixture.settle(user_id, hold_id, 130, charge)).toMatchObject({ charged_tokens: 130 });
  expect(await fixture.hold(user_id, 1, key)).toMatchObject({ code: "key_budget_exceeded", available: 0 });
  expect(await fixture.hold(user_id, 1)).toMatchObject({ status: "held" });
});

describe("a key's budget with an interval", () => {
  test.each([
    ["day", "2026-03-04T23:59:59.999Z", "2026-03-05T00:00:00.000Z"],
    ["week", "2026-03-08T23:59:59.999Z", "2026-03-09T00:00:00.000Z"],
    ["month", "2026-03-31T23:59:59.999Z", "2026-04-01T00:00:00.000Z"],
  ] as const)("of a %s starts again in UTC, and counts the open holds", async (key_budget_interval, last, next) => {
    fixture.clock.put("2026-03-04T10:00:00.000Z");
    const user_id = await fixture.account(1_000);
    const key = { api_key_id: newId(), key_budget_tokens: 100, key_budget_interval };
    await fixture.settle(user_id, await heldBy(fixture.hold(user_id, 70, key)), 70, key);
    const open = await heldBy(fixture.hold(user_id, 30, key));
    fixture.clock.put(last);
    expect(await fixture.hold(user_id, 1, key)).toMatchObject({ code: "key_budget_exceeded", available: 0 });
    fixture.clock.put(next);
    expect(await fixture.hold(user_id, 71, key)).toMatchObject({ code: "key_budget_exceeded", available: 70 });
    const full = { ...key, minimum_tokens: 1 };
    const all = await fixture.hold(user_id, 100, full);
    expect(all).toMatchObject({ status: "held", held_tokens: 70 });
    // The earlier call counts in the interval in which it ends.
    await fixture.settle(user_id, open, 30, key);
    expect(await fixture.hold(user_id, 1, full)).toMatchObject({ code: "key_budget_exceeded", available: 0 });
    const spends = await fixture.ledger.keySpends({ user_ids: [user_id], ids: [key.api_key_id] });
    expect(spends.get(key.api_key_id)).toMatchObject({ spent: 100, [key_budget_interval]: 30 });
  });
});

test("an end user's budget counts open holds, also those of the same batch, and only that end user's", async () => {
  const user_id = await fixture.account(1_000);
  const labels = { user: "ada" };
  await fixture.ledger.end_users.put(user_id, "ada", { budget_tokens: 100, budget_interval: null });
  const outcomes = await Promise.all([
    fixture.hold(user_id, 70, { labels }),
    fixture.hold(user_id, 70, { labels }),
    fixture.hold(user_id, 70, { labels: { user: "bob" } }),
  ]);
  expect(outcomes).toMatchObject([
    { status: "held" },
    { status: "refused", code: "end_user_budget_exceeded", available: 30 },
    { status: "held" },
  ]);
  const [first] = outcomes;
  if (first?.status !== "held") throw new Error("not held");
  await fixture.settle(user_id, first.hold_id, 20, { labels });
  const second = await heldBy(fixture.hold(user_id, 80, { labels }));
  // The charge and the hold of one batch: the ended hold no longer counts, and its charge does.
  const [, next] = await Promise.all([
    fixture.settle(user_id, second, 60, { labels }),
    fixture.hold(user_id, 21, { labels }),
  ]);
  expect(next).toMatchObject({ code: "end_user_budget_exceeded", available: 20 });
  expect(await fixture.hold(user_id, 20, { labels })).toMatchObject({ status: "held" });
  expect(await fixture.hold(user_id, 1, { labels })).toMatchObject({ code: "end_user_budget_exceeded", available: 0 });
});

test("a call that ends after the erasure of its user is charged without labels, beside a labelled call in its batch", async () => {
  const [erased, other] = [await fixture.account(1_000), await fixture.account(1_000)];
  const labels = { user: "ada", "metadata.team": "red" };
  const holds = [await heldBy(fixture.hold(erased, 50, { labels })), await heldBy(fixture.hold(other, 50, { labels }))];
  const values = [erased, fixture.clock.now()];
  await db.query({ text: "insert into users (id, created_at, erased_at) values ($1, $2, $2)", values });
  await Promise.all([erased, other].map((id, nth) => fixture.settle(id, holds[nth] as string, 20, { labels })));
  const labelled = async (id: string) => {
    const [row] = await db.query({
      text: `select (select jsonb_agg(labels) from usage_event where user_id = $1) as of_calls,
        (select count(*)::int from usage_label_daily where user_id = $1) as of_days`,
      values: [id],
    });
    return row;
  };
  expect(await labelled(erased)).toEqual({ of_calls: [null], of_days: 0 });
  expect(await labelled(other)).toEqual({ of_calls: [labels], of_days: 2 });
});
