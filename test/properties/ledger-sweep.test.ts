import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Crossing, HoldOutcome, SettleRequest } from "../../src/account/ledger/ledger.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";

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
const statusOf = (user_id: string) => fixture.ledger.accountStatus(user_id);

async function heldBy(outcome: Promise<HoldOutcome>): Promise<string> {
  const held = await outcome;
  if (held.status !== "held") throw new Error(`refused: ${held.code}`);
  return held.hold_id;
}

/** Ends the lease of a hold, as if its process had died. */
async function die(hold_id: string): Promise<void> {
  await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [hold_id] });
}

/** A call with this cost so far. */
const note = (user_id: string, hold_id: string, cost: number | null, more: Partial<SettleRequest> = {}) => {
  const charge = cost === null ? null : settleOf(user_id, hold_id, cost, { request_id: hold_id, ...more });
  return fixture.ledger.progress([{ user_id, hold_id, charge }]);
};

/** A call that held 80 of 100 tokens, was lost at a cost of `cost`, and was settled at that. */
async function lostCall(cost: number, api_key_id: string | null = null) {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 80, { api_key_id }));
  await note(user_id, hold_id, cost, { api_key_id });
  await die(hold_id);
  await fixture.ledger.sweep();
  return { user_id, hold_id };
}

describe("a hold whose lease runs out", () => {
  test("is settled at the last known cost of its call (litellm#14457)", async () => {
    const user_id = await fixture.account(100);
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    for (const cost of [20, 35, null]) await note(user_id, hold_id, cost);
    await die(hold_id);
    await fixture.ledger.sweep();
    await fixture.ledger.sweep();
    expect(await statusOf(user_id)).toMatchObject({ posted: 65, held: 0 });
    const [entry] = await fixture.ledger.entries(user_id, {}, everything);
    expect(entry).toMatchObject({ type: "usage", amount: -35, hold_id, model: "lab/small", request_id: hold_id });
    expect(entry?.description).toBe("Model call, settled as last known");
    const [record] = await fixture.ledger.charges(user_id, hold_id, 1);
    expect(record?.charge).toMatchObject({ from_progress: true, output_tokens: 20 });
  });

  test("is charged the difference once, as a second line, if its call still lives and cost more", async () => {
    const { user_id, hold_id } = await lostCall(35);
    const charge = { request_id: hold_id, output_tokens: 44, output_rate_micro: 1_360_000 };
    const whole = { cost_tokens: 60, charged_tokens: 60, overage_tokens: 0, absorbed_tokens: 0 };
    expect(await fixture.settle(user_id, hold_id, 60, charge)).toEqual({
      status: "settled",
      replayed: false,
      ...whole,
    });
    for (const cost of [60, 70]) {
      const again = await fixture.settle(user_id, hold_id, cost, charge);
      expect(again).toEqual({ status: "settled", replayed: true, ...whole });
    }
    expect(await statusOf(user_id)).toMatchObject({ posted: 40, held: 0 });
    const [record] = await fixture.ledger.charges(user_id, hold_id, 1);
    expect(record?.charge).toMatchObject({ from_progress: false, output_tokens: 44, ...whole });
    expect(record?.charge?.entries.map(({ amount, description }) => [amount, description])).toEqual([
      [-35, "Model call, settled as last known"],
      [-25, "Model call, the rest of it"],
    ]);
    const { daily_usage } = await fixture.ledger.usage(user_id, 1);
    expect(daily_usage).toMatchObject([{ requests: 1, cost_tokens: 60, tokens: 144 }]);
  });

  test("is charged the difference like any charge: the uncovered part is absorbed, and the key's spend counts it", async () => {
    const api_key_id = newId();
    const { user_id, hold_id } = await lostCall(35, api_key_id);
    await fixture.settle(user_id, newId(), 50);
    expect(await fixture.settle(user_id, hold_id, 60, { api_key_id, request_id: hold_id })).toMatchObject({
      cost_tokens: 60,
      charged_tokens: 50,
      absorbed_tokens: 10,
    });
    expect(await statusOf(user_id)).toMatchObject({ posted: 0, held: 0 });
    const spends = await fixture.ledger.keySpends({ user_ids: [user_id], ids: [api_key_id] });
    expect(spends.get(api_key_id)?.spent).toBe(60);
  });

  test("keeps its charge if its call cost no more than the last known cost", async () => {
    const { user_id, hold_id } = await lostCall(35);
    for (const cost of [35, 30]) {
      expect(await fixture.settle(user_id, hold_id, cost)).toMatchObject({ cost_tokens: 35, replayed: true });
    }
    expect(await statusOf(user_id)).toMatchObject({ posted: 65 });
  });

  test("counts completely on the day of its first charge", async () => {
    const world = createLedgerFixture(db, "2026-03-01T23:59:00.000Z");
    const user_id = await world.account(100);
    const hold_id = await heldBy(world.hold(user_id, 80));
    await note(user_id, hold_id, 35);
    await die(hold_id);
    await world.ledger.sweep();
    world.pass(120);
    await world.settle(user_id, hold_id, 60, { request_id: hold_id });
    const { daily_usage } = await world.ledger.usage(user_id, 2);
    expect(daily_usage.map(({ cost_tokens, requests }) => [cost_tokens, requests])).toEqual([
      [60, 1],
      [0, 0],
    ]);
  });

  test("stays open if its call reports progress before a sweep has ended it, however late", async () => {
    const user_id = await fixture.account(100);
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    await note(user_id, hold_id, 35);
    await die(hold_id);
    await note(user_id, hold_id, null);
    await fixture.ledger.sweep();
    expect(await statusOf(user_id)).toMatchObject({ posted: 100, held: 80 });
    expect(await fixture.settle(user_id, hold_id, 60)).toMatchObject({ cost_tokens: 60, replayed: false });
  });

  test("is released if nothing was generated", async () => {
    const user_id = await fixture.account(100);
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    await note(user_id, hold_id, null);
    await die(hold_id);
    await fixture.ledger.sweep();
    expect(await statusOf(user_id)).toMatchObject({ posted: 100, held: 0 });
  });

  test("gets a full new lease if its call reports progress a second before the lease ends", async () => {
    const user_id = await fixture.account(100);
    const hold_id = await heldBy(fixture.hold(user_id, 80));
    const nearly =
      "update hold set expires_at = clock_timestamp() + interval '1 second' where id = $1 returning expires_at";
    const [before] = await db.query<{ expires_at: string }>({ text: nearly, values: [hold_id] });
    await note(user_id, hold_id, null);
    const [after] = await db.query<{ expires_at: string }>({
      text: "select expires_at from hold where id = $1",
      values: [hold_id],
    });
    expect(Date.parse(after?.expires_at ?? "") - Date.parse(before?.expires_at ?? "")).toBeGreaterThan(60_000);
  });
});

describe("thresholds", () => {
  /** A ledger, an account with these buckets, and the thresholds of the account that the next sweep reports. */
  async function watched(...amounts: number[]) {
    const reported: Crossing[] = [];
    const world = createLedgerFixture(db);
    world.calls.notify = async (crossing) => void reported.push(crossing);
    const user_id = await world.account(...amounts);
    const sweep = async () => {
      await world.ledger.sweep();
      await world.ledger.sweep();
      return reported.splice(0).filter((crossing) => crossing.user_id === user_id);
    };
    return { ...world, user_id, sweep };
  }
  const names = (crossings: Crossing[]) => crossings.map(({ kind, percent }) => `${kind} ${percent}`);

  test("are reported once for each grant, cap and budget, with the charge that crossed them", async () => {
    const { user_id, sweep, ...world } = await watched(100);
    const key = { api_key_id: newId(), key_budget_tokens: 200 };
    const spend = async (cost: number) => {
      const hold_id = await heldBy(world.hold(user_id, cost, key));
      await world.settle(user_id, hold_id, cost, key);
      return sweep();
    };
    expect(await spend(49)).toEqual([]);
    expect(await spend(1)).toMatchObject([{ kind: "balance", percent: 50, granted_tokens: 100, remaining_tokens: 50 }]);
    expect(await spend(1)).toEqual([]);
    const jump = await spend(49);
    expect(names(jump)).toEqual(["balance 80", "balance 100", "key_budget 50"]);
    expect(jump).toContainEqual(
      expect.objectContaining({ api_key_id: key.api_key_id, budget_tokens: 200, spent_tokens: 100 }),
    );
    await world.grant(user_id, 10);
    await world.ledger.setOverage({ user_id, cap_tokens: 40 });
    expect(await spend(30)).toMatchObject([
      { kind: "balance", percent: 50, granted_tokens: 10, remaining_tokens: 0 },
      { kind: "balance", percent: 80 },
      { kind: "balance", percent: 100 },
      { kind: "overage", percent: 50, cap_tokens: 40, used_tokens: 20 },
    ]);
  });

  test("of a key's budget are reported for a charge without an open hold", async () => {
    const { user_id, sweep, ...world } = await watched(1_000);
    const key = { api_key_id: newId(), key_budget_tokens: 100 };
    const hold_id = await heldBy(world.hold(user_id, 90, key));
    await die(hold_id);
    expect(await sweep()).toEqual([]);
    await world.settle(user_id, hold_id, 85, key);
    expect(names(await sweep())).toEqual(["key_budget 50", "key_budget 80"]);
  });

  test("of the balance are reported for expired tokens, and not again for later charges", async () => {
    const { user_id, sweep, ...world } = await watched();
    await world.grant(user_id, 60, 10);
    await world.grant(user_id, 40);
    world.pass(20);
    expect(await sweep()).toMatchObject([
      { kind: "balance", percent: 50, hold_id: null, granted_tokens: 100, remaining_tokens: 40 },
    ]);
    await world.settle(user_id, newId(), 10);
    expect(await sweep()).toEqual([]);
    world.pass(2_592_000);
    expect(names(await sweep())).toEqual(["balance 80", "balance 100"]);
  });

  test("of the balance are reported for tokens of an expired bucket that a call held and did not spend", async () => {
    const { user_id, sweep, ...world } = await watched();
    await world.grant(user_id, 100, 10);
    const hold_id = await heldBy(world.hold(user_id, 100));
    world.pass(20);
    expect(await sweep()).toEqual([]);
    await world.ledger.release({ user_id, hold_id });
    expect(names(await sweep())).toEqual(["balance 50", "balance 80", "balance 100"]);
  });

  test("of the balance are reported for a claw-back, and again after each grant", async () => {
    const { user_id, sweep, ...world } = await watched();
    const bucket = await world.grant(user_id, 100);
    const clawBack = (amount_tokens: number, key: string) =>
      world.ledger.clawBack({ user_id, bucket_id: bucket.id, amount_tokens, reason: "Refunded", key });
    await clawBack(90, "refund 1");
    expect(names(await sweep())).toEqual(["balance 50", "balance 80"]);
    await clawBack(10, "refund 2");
    expect(names(await sweep())).toEqual(["balance 100"]);
    const other = await world.grant(user_id, 100);
    await world.ledger.clawBack({ user_id, bucket_id: other.id, amount_tokens: 100, reason: "Refunded", key: "3" });
    expect(names(await sweep())).toEqual(["balance 50", "balance 80", "balance 100"]);
  });

  test("are reported again by the next sweep if their listener failed", async () => {
    const world = createLedgerFixture(db);
    let fails = true;
    const reported: string[] = [];
    const user_id = await world.account(100);
    world.calls.notify = async (crossing) => {
      if (fails) throw new Error("not now");
      if (crossing.user_id === user_id) reported.push(`${crossing.kind} ${crossing.percent}`);
    };
    await world.settle(user_id, newId(), 60);
    await expect(world.ledger.sweep()).rejects.toThrow("not now");
    fails = false;
    await world.ledger.sweep();
    expect(reported).toEqual(["balance 50"]);
  });
});

describe("a sweep continues after one failure, and reports it at the end:", () => {
  const change = (text: string, values: unknown[]) => db.query({ text, values });

  test("a hold that cannot be ended", async () => {
    const [poisoned, sound] = [await fixture.account(100), await fixture.account(100)];
    const hold_ids = [await heldBy(fixture.hold(poisoned, 80)), await heldBy(fixture.hold(sound, 80))] as const;
    await note(poisoned, hold_ids[0], 35);
    await change(`update hold set progress = progress || '{"cost_tokens": -1}' where id = $1`, [hold_ids[0]]);
    for (const hold_id of hold_ids) await die(hold_id);
    const expired = await fixture.account();
    await fixture.grant(expired, 100, 10);
    fixture.pass(10);
    await expect(fixture.ledger.sweep()).rejects.toThrow(`1 failed, the rest is done: hold ${hold_ids[0]}`);
    expect(await statusOf(sound)).toMatchObject({ held: 0 });
    expect(await fixture.ledger.entries(expired, { type: "expiry" }, everything)).toHaveLength(1);
    await change("update hold set progress = null where id = $1", [hold_ids[0]]);
    await fixture.ledger.sweep();
    expect(await statusOf(poisoned)).toMatchObject({ posted: 100, held: 0 });
  });

  test("an account whose buckets cannot be closed", async () => {
    const accounts: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      const user_id = await fixture.account();
      await fixture.grant(user_id, 100, 10);
      accounts.push(user_id);
    }
    const [first, poisoned, last] = accounts.sort() as [string, string, string];
    await change("update account set seq = seq - 1 where user_id = $1", [poisoned]);
    fixture.pass(60);
    await expect(fixture.ledger.sweep()).rejects.toThrow(`1 failed, the rest is done: account ${poisoned}`);
    for (const user_id of [first, last]) {
      expect(await fixture.ledger.entries(user_id, { type: "expiry" }, everything)).toHaveLength(1);
    }
    await change("update account set seq = seq + 1 where user_id = $1", [poisoned]);
    await fixture.ledger.sweep();
    expect(await fixture.ledger.entries(poisoned, { type: "expiry" }, everything)).toHaveLength(1);
  });

  test("a threshold whose listener fails", async () => {
    const world = createLedgerFixture(db);
    const [one, other] = [await world.account(100), await world.account(100)].sort() as [string, string];
    const reported: string[] = [];
    world.calls.notify = async ({ user_id }) => {
      if (user_id === one) throw new Error("no");
      if (user_id === other) reported.push(user_id);
    };
    for (const user_id of [one, other]) await world.settle(user_id, newId(), 60);
    await expect(world.ledger.sweep()).rejects.toThrow("1 failed, the rest is done");
    expect(reported).toEqual([other]);
    await change("delete from crossing where user_id = $1", [one]);
  });
});
