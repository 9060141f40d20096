import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import type { HoldOutcome } from "../../src/account/ledger/ledger.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addSeconds } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
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

async function heldBy(outcome: Promise<HoldOutcome>): Promise<string> {
  const held = await outcome;
  if (held.status !== "held") throw new Error(`refused: ${held.code}`);
  return held.hold_id;
}

async function entriesOf(user_id: string) {
  return (await fixture.ledger.entries(user_id, {}, everything)).reverse();
}

test("the owner can check an export: each hash follows from the entry and the hash before", async () => {
  const user_id = await fixture.account(100);
  const request_id = 'a "quoted"\n\\ name, ünïcode \u{1f389} and \u0001';
  const hold_id = await heldBy(fixture.hold(user_id, 50));
  await fixture.settle(user_id, hold_id, 120, { request_id, run_id: newId(), agent_id: newId(), api_key_id: newId() });
  let previous = "0".repeat(64);
  for (const e of await entriesOf(user_id)) {
    const of_call = [e.hold_id, e.model, e.agent_id, e.run_id, e.request_id, e.api_key_id];
    const fields = [
      previous,
      user_id,
      e.seq,
      e.type,
      e.amount,
      e.balance_after,
      e.bucket_id,
      e.source,
      ...of_call,
      e.description,
      e.created_at,
    ];
    const preimage = `[${fields.map((field) => JSON.stringify(field)).join(", ")}]`;
    previous = createHash("sha256").update(preimage).digest("hex");
    expect(e.hash).toBe(previous);
  }
});

test("entries are listed newest first, page by page, and filtered", async () => {
  const user_id = await fixture.account(100);
  const run_id = newId();
  const agent_id = newId();
  for (const more of [{}, { run_id }, { agent_id }, { run_id, agent_id }]) {
    fixture.pass(1);
    await fixture.settle(user_id, newId(), 1, more);
  }
  const seqs = async (filter: Parameters<typeof fixture.ledger.entries>[1], page = everything) =>
    (await fixture.ledger.entries(user_id, filter, page)).map(({ seq }) => seq);
  expect(await seqs({})).toEqual([5, 4, 3, 2, 1]);
  expect(await seqs({}, { limit: 2, before_seq: 4 } as never)).toEqual([3, 2]);
  expect(await seqs({ type: "grant" })).toEqual([1]);
  expect(await seqs({ run_id })).toEqual([5, 3]);
  expect(await seqs({ run_id, agent_id })).toEqual([5]);
  const now = fixture.clock.now();
  expect(await seqs({ from: addSeconds(now, -2), to: now })).toEqual([4, 3]);
});

test("a window of time is listed completely, page by page and in the order of its instants, in both directions", async () => {
  const user_id = await fixture.account(100); // seq 1
  const granted_at = fixture.clock.now();
  for (const seconds of [1, 2, 4, 3, 5, 6]) {
    fixture.clock.put(addSeconds(granted_at, seconds)); // seq 5 is by a node whose clock is behind
    await fixture.settle(user_id, newId(), 1);
  }
  const window = { from: addSeconds(granted_at, 1), to: addSeconds(granted_at, 6) };
  const pages: number[][] = [];
  for (let before_seq: number | null = null; ; before_seq = pages.at(-1)?.at(-1) ?? null) {
    const page = await fixture.ledger.entries(user_id, window, { limit: 2, before_seq });
    if (page.length === 0) break;
    pages.push(page.map(({ seq }) => seq));
  }
  const exported: number[] = [];
  for await (const part of fixture.ledger.allEntries(user_id, window)) exported.push(...part.map(({ seq }) => seq));
  expect(pages).toEqual([[6, 4], [5, 3], [2]]);
  expect(exported).toEqual([2, 3, 5, 4, 6]);
});

test("usage has every UTC day of its window, today last, and sums by model, agent and key", async () => {
  const user_id = await fixture.account(1_000_000);
  const agent_id = newId();
  const api_key_id = newId();
  await fixture.settle(user_id, newId(), 999, { model: "lab/old" }); // outside the window
  fixture.pass(3 * 86_400);
  await fixture.settle(user_id, newId(), 10, { agent_id });
  fixture.pass(86_400);
  await fixture.settle(user_id, newId(), 30, { model: "lab/large", api_key_id, input_tokens: 500 });
  await fixture.settle(user_id, newId(), 5, { api_key_id });
  const today = Temporal.PlainDate.from(fixture.clock.now().slice(0, 10));
  const day = (ago: number, tokens: number, cost_tokens: number, requests: number) => {
    return { date: today.subtract({ days: ago }).toString(), tokens, cost_tokens, requests };
  };
  expect(await fixture.ledger.usage(user_id, 3)).toEqual({
    total_tokens_used: 760,
    total_cost_tokens: 45,
    daily_usage: [day(2, 0, 0, 0), day(1, 120, 10, 1), day(0, 640, 35, 2)],
    model_breakdown: [
      { model_name: "lab/large", tokens: 520, cost_tokens: 30, requests: 1 },
      { model_name: "lab/small", tokens: 240, cost_tokens: 15, requests: 2 },
    ],
    agent_breakdown: [
      { agent_id: null, tokens: 640, cost_tokens: 35, requests: 2 },
      { agent_id, tokens: 120, cost_tokens: 10, requests: 1 },
    ],
    api_key_breakdown: [
      { api_key_id, tokens: 640, cost_tokens: 35, requests: 2 },
      { api_key_id: null, tokens: 120, cost_tokens: 10, requests: 1 },
    ],
  });
  const spends = await fixture.ledger.keySpends({ user_ids: [user_id], ids: [api_key_id] });
  expect(spends.get(api_key_id)?.spent).toBe(35);
});

test("buckets are listed oldest first and page by page, and only open ones unless the request asks for all", async () => {
  const user_id = await fixture.account(10, 20, 30);
  await fixture.settle(user_id, newId(), 10);
  const amounts = async (page: Parameters<typeof fixture.ledger.buckets>[1]) => {
    const { buckets, total_remaining } = await fixture.ledger.buckets(user_id, page);
    return {
      ids: buckets.map(({ id }) => id),
      originals: buckets.map((bucket) => bucket.original_amount),
      total_remaining,
    };
  };
  expect(await amounts({ ...allBuckets, include_closed: false })).toMatchObject({
    originals: [20, 30],
    total_remaining: 50,
  });
  const first = await amounts({ ...allBuckets, limit: 2 });
  expect(first).toMatchObject({ originals: [10, 20], total_remaining: 50 });
  expect(await amounts({ ...allBuckets, after: first.ids[1] ?? null })).toMatchObject({ originals: [30] });
});

test("the next due instant is the earliest expiry or trial end, until a sweep handles it or it passes", async () => {
  const own = await createTestDatabase();
  const fresh = await own.open();
  const world = createLedgerFixture(fresh);
  const start = world.clock.now();
  const at = (seconds: number) => addSeconds(start, seconds);
  const user_id = newId();
  const trial = { ends_at: at(100), tokens: 10 };
  await fresh.transaction((tx) => world.ledger.openAccount(tx, { user_id, trial }));
  await world.grant(await world.account(), 50, 49); // granted at second 1, until second 50
  expect(await world.ledger.nextDueAt(at(40))).toBeNull();
  expect(await world.ledger.nextDueAt(at(500))).toBe(at(50));
  world.clock.put(at(50));
  await world.ledger.sweep();
  expect(await world.ledger.nextDueAt(at(500))).toBe(at(100));
  world.clock.put(at(100));
  await world.ledger.sweep();
  expect(await world.ledger.nextDueAt(at(500))).toBeNull();
  await fresh.close();
  await own.drop();
});

test("the audit finds rows that were changed without the ledger", async () => {
  const own = await createTestDatabase();
  const fresh = await own.open();
  const world = createLedgerFixture(fresh);
  const user_id = await world.account(100);
  await world.settle(user_id, newId(), 10);
  await world.grant(user_id, 5, 10);
  world.pass(10);
  await world.ledger.sweep();
  const like_grant = "a bucket is what its grant says, and has expired no sooner than it does";
  const like_call = "every entry of a charge has its usage event, of the same call";
  const kept = "what a charge keeps of its hold is its slices and perhaps overage, no more than was asked for";
  const tampers = [
    ["update bucket set expires_at = expires_at + interval '1 day' where closed_reason = 'expired'", like_grant],
    ["update usage_event set request_id = 'another'", like_call],
    ["update usage_event set requested = 1, held = 2", kept],
    ["update usage_daily set cost = cost - 1", "the daily usage is the sum of the usage events"],
    ["update account set posted = posted - 1", "posted and held are the sums over the buckets"],
    ["update entry set description = 'Never mind' where seq = 2", "each hash is that of the entry and the hash before"],
    ["update usage_event set output_tokens = 21", "a charge costs its tokens at its rates, rounded up once"],
    ["delete from entry where seq = 2", "entries are numbered without a gap"],
    ["with gone as (delete from bucket) delete from account", "every entry has its account"],
  ] as const;
  for (const [text, invariant] of tampers) {
    await fresh.query({ text });
    const { ok, violations } = await world.ledger.audit();
    expect(ok).toBe(false);
    expect(violations).toContainEqual(expect.objectContaining({ invariant, account_id: user_id }));
  }
  await fresh.close();
  await own.drop();
});

test("a call that is settled during its lookup is listed once, as settled", async () => {
  const user_id = await fixture.account(100);
  const hold_id = await heldBy(fixture.hold(user_id, 50, { request_id: "looked-up" }));
  const reader = createLedger({
    clock: fixture.clock,
    db: {
      ...db,
      query: async (statement) => {
        const rows = await db.query(statement);
        await fixture.settle(user_id, hold_id, 20, { request_id: "looked-up" });
        return rows as never;
      },
    },
  });
  expect((await reader.charges(user_id, "looked-up", 5)).map(({ status }) => status)).toEqual(["settled"]);
});
