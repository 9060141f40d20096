import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, delta, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// Two service processes over one PostgreSQL. Embedded storage belongs to one process, which then plays both.

const GRANTED = 4_000;
/** The cost on lab/plain: 10 tokens of input at 1 and 4 of output at 2. */
const COST = 18;
const CALLS = 160;
const CALLERS = 24;

let database: TestDatabase;
let upstream: Upstream;
const processes: RunningProcess[] = [];
let urls: string[];

beforeAll(async () => {
  upstream = await startUpstream();
  database = await createTestDatabase();
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  const env: Record<string, string> = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_CONFIG: config,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    LAB_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const count = database.kind === "postgres" ? 2 : 1;
  for (let n = 0; n < count; n += 1) processes.push(startProcess(env));
  urls = await Promise.all(processes.map(({ listening }) => listening));
});

afterAll(async () => {
  for (const each of processes) each.signal("SIGKILL");
  await Promise.all(processes.map(({ ended }) => ended));
  await upstream.close();
  await database.drop();
});

async function send(turn: number, method: string, path: string, key: string, body?: unknown, idempotency_key?: string) {
  const headers: Record<string, string> = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  if (idempotency_key !== undefined) headers["Idempotency-Key"] = idempotency_key;
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${urls[turn % urls.length]}${path}`, { method, headers, ...sent });
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field
  const answer: any = await response.json();
  return { status: response.status, replayed: response.headers.get("idempotent-replayed") === "true", body: answer };
}

async function newUser(tokens: number): Promise<string> {
  const email = `${newId()}@example.com`;
  const { body } = await send(0, "POST", "/api/v1/admin/users", ADMIN_KEY, { email, trial: false });
  const grant = { amount_tokens: tokens, source: "top_up" };
  await send(0, "POST", `/api/v1/admin/users/${body.user.id}/grants`, ADMIN_KEY, grant);
  return body.api_key.key;
}

const call = (max_tokens: number) => ({
  model: "lab/plain",
  messages: [{ role: "user", content: "hello" }],
  max_tokens,
});
const balanceOf = async (turn: number, key: string) => (await send(turn, "GET", "/api/v1/users/me", key)).body.balance;

/** Reads the database itself. An embedded database can only be read by its own process. */
async function look<T>(read: (db: Db) => Promise<T>): Promise<T | null> {
  if (database.kind === "embedded") return null;
  const db = await database.open();
  try {
    return await read(db);
  } finally {
    await db.close();
  }
}

/** Holds of calls that have reported output. */
async function countNoted(db: Db): Promise<number> {
  return (await db.query({ text: "select 1 from hold where progress is not null" })).length;
}

/** A stream whose first event was read. */
async function openStream(turn: number, key: string, max_tokens: number) {
  const response = await fetch(`${urls[turn % urls.length]}/api/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ ...call(max_tokens), stream: true }),
  });
  if (response.body === null) throw new Error("a stream without a body");
  const reader = response.body.getReader();
  await reader.read();
  return reader;
}

test("two processes under load never overdraw one account, and charge each call once, also a call that is sent to both", async () => {
  const key = await newUser(GRANTED);
  const acknowledged = new Set<string>();
  const surprises: unknown[] = [];
  let next = 0;
  const caller = async () => {
    for (let turn = next++; turn < CALLS; turn = next++) {
      const name = `call ${turn}`;
      const once = () => send(turn, "POST", "/api/v1/chat/completions", key, call(100), name);
      const other = () => send(turn + 1, "POST", "/api/v1/chat/completions", key, call(100), name);
      for (const { status, body } of await Promise.all([once(), other()])) {
        if (status === 200) acknowledged.add(name);
        else if (status !== 402 && status !== 409) surprises.push(body);
      }
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  expect(surprises).toEqual([]);
  const balance = await balanceOf(1, key);
  expect(balance).toEqual({
    posted: GRANTED - acknowledged.size * COST,
    available: GRANTED - acknowledged.size * COST,
    held: 0,
    debt: 0,
  });
  expect(acknowledged.size).toBeGreaterThan(CALLERS);
  expect((await send(0, "GET", "/api/v1/admin/audit", ADMIN_KEY)).body).toMatchObject({ ok: true, violations: [] });
  const deadlocks = await look((db) =>
    db.query({ text: "select deadlocks from pg_stat_database where datname = current_database()" }),
  );
  expect(deadlocks ?? [{ deadlocks: 0 }]).toEqual([{ deadlocks: 0 }]);
});

test("calls that end while both processes sweep their expired holds are charged once each", async () => {
  const key = await newUser(GRANTED);
  upstream.answer(hanging(delta("x".repeat(40))));
  const streams = await Promise.all(Array.from({ length: 8 }, (_, turn) => openStream(turn, key, 200)));
  await expect.poll(async () => (await look(countNoted)) ?? 8).toBe(8);
  const expire = look((db) => db.query({ text: "update hold set expires_at = clock_timestamp()" }));
  await Promise.all([expire, ...streams.map((reader) => reader.cancel())]);
  await expect.poll(async () => (await balanceOf(0, key)).held).toBe(0);
  const { transactions } = (await send(1, "GET", "/api/v1/users/me/transactions?type=usage", key)).body;
  // 2 tokens of prompt at 1 and 10 of output at 2, whether the sweep or the call made the charge
  expect(transactions.map((entry: { amount: number }) => entry.amount)).toEqual(Array(8).fill(-22));
  expect((await balanceOf(1, key)).posted).toBe(GRANTED - 8 * 22);
  expect((await send(0, "GET", "/api/v1/admin/audit", ADMIN_KEY)).body).toMatchObject({ ok: true, violations: [] });
});

test("a stream whose process is killed is settled once, for its output so far, by the other process", async () => {
  const key = await newUser(GRANTED);
  upstream.answer(hanging(delta("x".repeat(400))), completion());
  const [first, ...left] = processes.length > 1 ? processes.toReversed() : processes;
  const turn = processes.length - 1;
  const reader = await openStream(turn, key, 500);
  await expect.poll(async () => (await balanceOf(0, key)).held).toBeGreaterThan(0);
  await expect.poll(async () => (await look(countNoted)) ?? 1).toBe(1);
  if (left.length === 0) {
    await reader.cancel();
  } else {
    first?.signal("SIGKILL");
    await first?.ended;
    await reader.read().catch(() => {});
    await look((db) => db.query({ text: "update hold set expires_at = clock_timestamp()" }));
  }
  await expect.poll(async () => (await balanceOf(0, key)).held).toBe(0);
  const spent = GRANTED - (await balanceOf(0, key)).posted;
  const { transactions } = (await send(0, "GET", "/api/v1/users/me/transactions?type=usage", key)).body;
  expect(transactions).toHaveLength(1);
  // 100 tokens of output at 2, and the prompt: the output so far, not the hold
  expect(spent).toBeGreaterThan(200);
  expect(spent).toBeLessThan(220);
  expect(transactions[0].amount).toBe(-spent);
  expect((await send(0, "GET", "/api/v1/admin/audit", ADMIN_KEY)).body).toMatchObject({ ok: true, violations: [] });
});
