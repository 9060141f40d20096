import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCipher } from "../../src/platform/cipher.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { newId } from "../../src/platform/ids.ts";
import { createWebhookKeys } from "../../src/tools/webhook-keys.service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let db: Db;
const cipherOf = (key: Buffer) => createCipher(key, "agent webhooks");
const master = randomBytes(32);
const keysUnder = (key: Buffer) => createWebhookKeys({ db, clock: createSystemClock(), cipher: cipherOf(key) });

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

test("concurrent requests give an agent one key, which is stored encrypted", async () => {
  const agent = { user_id: newId(), agent_id: newId() };
  const found = await Promise.all(Array.from({ length: 8 }, () => keysUnder(master).keyOf(agent)));
  expect(new Set(found.map((each) => each?.key)).size).toBe(1);
  const [row] = await db.query<{ sealed: Buffer }>({ text: "select sealed from agent_webhook_key" });
  expect(Buffer.from(row?.sealed ?? []).includes(found[0]?.key ?? "")).toBe(false);
  expect(await keysUnder(randomBytes(32)).keyOf(agent)).toBeNull();
});

test("an encrypted key that is moved to another agent cannot be opened (langgraph#9004)", async () => {
  const [agent, other] = [
    { user_id: newId(), agent_id: newId() },
    { user_id: newId(), agent_id: newId() },
  ];
  await keysUnder(master).keyOf(agent);
  await keysUnder(master).keyOf(other);
  await db.query({
    text: `update agent_webhook_key set sealed = (select sealed from agent_webhook_key where agent_id = $1)
      where agent_id = $2`,
    values: [agent.agent_id, other.agent_id],
  });
  expect(await keysUnder(master).keyOf(other)).toBeNull();
});

test("keys are erased with their user", async () => {
  const [agent, other] = [
    { user_id: newId(), agent_id: newId() },
    { user_id: newId(), agent_id: newId() },
  ];
  const key = await keysUnder(master).keyOf(agent);
  const kept = await keysUnder(master).keyOf(other);
  await db.transaction((tx) => keysUnder(master).forgetUser(tx, agent.user_id));
  expect((await keysUnder(master).keyOf(agent))?.key).not.toBe(key?.key);
  expect(await keysUnder(master).keyOf(other)).toEqual(kept);
});
