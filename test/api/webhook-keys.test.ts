import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createWebhookKeys } from "../../src/agents/tools/webhook-keys.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, insertAgent, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let db: Db;
const cipherOf = (key: Buffer) => createCipher(key, "agent webhooks");
const master = randomBytes(32);
const keysUnder = (key: Buffer) => createWebhookKeys({ db, clock: createSystemClock(), cipher: cipherOf(key) });

const newAgent = async () => {
  const agent = { user_id: newId(), agent_id: newId() };
  await insertAgent(db, agent);
  return agent;
};

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

test("concurrent requests give an agent one key, which is stored encrypted", async () => {
  const agent = await newAgent();
  const found = await Promise.all(Array.from({ length: 8 }, () => keysUnder(master).keyOf(agent)));
  expect(new Set(found.map((each) => each?.key)).size).toBe(1);
  const [row] = await db.query<{ sealed: Buffer }>({ text: "select sealed from agent_webhook_key" });
  expect(Buffer.from(row?.sealed ?? []).includes(found[0]?.key ?? "")).toBe(false);
  expect(await keysUnder(randomBytes(32)).keyOf(agent)).toBeNull();
});

test("an encrypted key that is moved to another agent cannot be opened (langgraph#9004)", async () => {
  const [agent, other] = [await newAgent(), await newAgent()];
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
  const [agent, other] = [await newAgent(), await newAgent()];
  const key = await keysUnder(master).keyOf(agent);
  const kept = await keysUnder(master).keyOf(other);
  await db.transaction((tx) => keysUnder(master).forgetUser(tx, agent.user_id));
  expect((await keysUnder(master).keyOf(agent))?.key).not.toBe(key?.key);
  expect(await keysUnder(master).keyOf(other)).toEqual(kept);
});

test.skipIf(inject("storage").kind === "embedded")(
  "an agent that is deleted at the same moment gets none, which would stay",
  async () => {
    const agent = await newAgent();
    const given = await db.transaction(async (tx) => {
      const { user_id, agent_id } = agent;
      await tx.query({ text: "delete from agent where user_id = $1 and id = $2", values: [user_id, agent_id] });
      await keysUnder(master).forgetAgents(tx, [agent]);
      const key = keysUnder(master).keyOf(agent);
      const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      await Promise.race([key, expect.poll(() => db.query({ text: waiting })).toHaveLength(1)]);
      return { key };
    });
    expect(await given.key).toBeNull();
    expect(
      await db.query({ text: "select from agent_webhook_key where agent_id = $1", values: [agent.agent_id] }),
    ).toEqual([]);
  },
);
