import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { createAutoTopupStore } from "../../src/account/billing/auto-topup.store.ts";
import { type ClaimedDelivery, createDeliveryStore } from "../../src/account/notices/delivery.store.ts";
import { createNoticesStore } from "../../src/account/notices/notices.store.ts";
import { insertResults } from "../../src/account/notices/result.store.ts";
import { createAccounts } from "../../src/account/users/accounts.service.ts";
import { createWebhookKeys } from "../../src/agents/tools/webhook-keys.service.ts";
import { SCOPES } from "../../src/api/contract/caller.ts";
import { createIdempotencyStore } from "../../src/api/http/idempotency.store.ts";
import { createItemsStore } from "../../src/gateway/responses/items.store.ts";
import { asPurserError } from "../../src/kernel/errors.ts";
import type { Db, Sql, Tx } from "../../src/platform/db/db.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { NIL_ID, newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, insertAgent, type TestDatabase } from "../support/database.ts";

// A run, a settle or a request may still write for a user who was erased while it was in progress.

const clock = createSystemClock();
let database: TestDatabase;
let db: Db;
let accounts: Awaited<ReturnType<typeof createAccounts>>;
let user_id: string;
let agent_id: string;

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  accounts = await createAccounts({ db, clock });
});
afterAll(async () => {
  await accounts.close();
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  const email = `${newId()}@example.com`;
  const made = await db.transaction((tx) => accounts.createUser(tx, { email, key_name: "first key" }));
  user_id = made.user.id;
  agent_id = newId();
  await insertAgent(db, { user_id, agent_id });
});

const webhookKeys = () => createWebhookKeys({ db, clock, cipher: createCipher(randomBytes(32), "agent webhooks") });
const notices = () => createNoticesStore(db);
const addNotice = (sql: Sql) => {
  const notice = {
    user_id,
    id: newId(),
    event: "run.failed",
    dedupe_key: "r",
    data: {},
    created_at: clock.now(),
    if_subscribed: false,
  };
  return notices().insertNotice(sql, notice as Parameters<ReturnType<typeof notices>["insertNotice"]>[1]);
};
const addResult = () =>
  db.transaction((tx) =>
    insertResults(tx, [
      { user_id, id: newId(), run_id: newId(), address: "https://a.example/", unless_unchanged: true },
    ]),
  );
const deliveries = () => createDeliveryStore(db);
const claimed = () => ({ user_id, id: newId(), destination_id: newId() }) as ClaimedDelivery;
const addEndpoint = () => {
  const endpoint = { user_id, id: newId(), url: "https://a.example/", events: ["run.failed" as const] };
  const row = { ...endpoint, secret: randomBytes(8), created_at: clock.now() };
  return db.transaction((tx) => notices().insertEndpoint(tx, row));
};
const rowsOf = async (table: string) =>
  (await db.query({ text: `select from ${table} where user_id = $1`, values: [user_id] })).length;
const expectNothing = async () => {
  for (const table of [
    "notice",
    "agent_webhook_key",
    "webhook_endpoint",
    "delivery",
    "delivered_output",
    "sent_mail",
  ]) {
    expect(await rowsOf(table), table).toBe(0);
  }
};
const erase = async (tx: Tx) => {
  await accounts.eraseUser(tx, user_id);
  await notices().deleteUser(tx, user_id);
  await webhookKeys().forgetUser(tx, user_id);
};
/** A transaction that is held before it commits. */
const held = async (work: (tx: Tx) => Promise<void>) => {
  const worked = Promise.withResolvers<void>();
  const committing = Promise.withResolvers<void>();
  const done = db.transaction(async (tx) => {
    await work(tx);
    worked.resolve();
    await committing.promise;
  });
  await worked.promise;
  return async () => {
    committing.resolve();
    await done;
  };
};

test("all rows of an existing user are written", async () => {
  await addNotice(db);
  await addEndpoint();
  expect((await webhookKeys().keyOf({ user_id, agent_id }))?.key).toMatch(/^whsec_/);
  expect([await rowsOf("notice"), await rowsOf("webhook_endpoint"), await rowsOf("agent_webhook_key")]).toEqual([
    1, 1, 1,
  ]);
});

test("an erased user gets no notice, no signing key and no endpoint", async () => {
  await db.transaction(erase);
  await addNotice(db);
  expect(await webhookKeys().keyOf({ user_id, agent_id })).toBeNull();
  await expect(addEndpoint()).rejects.toThrow("erased");
  await expectNothing();
});

test("an erased user's results, their last outputs and counts of mails are deleted, and none is written afterwards", async () => {
  const write = async () => {
    await addResult();
    await deliveries().countMail(claimed(), 20);
    const output = { agent_id, schedule_id: NIL_ID, output_hash: "h" };
    await db.transaction((tx) => deliveries().keepOutput(tx, claimed(), output));
  };
  await write();
  for (const table of ["delivery", "delivered_output", "sent_mail"]) expect(await rowsOf(table), table).toBe(1);
  await db.transaction(erase);
  await write();
  await expectNothing();
});

test("no response item and no Idempotency-Key of an erased user is stored", async () => {
  const cipher = createCipher(randomBytes(32), "kept");
  const [items, keys] = [
    createItemsStore({ db, clock, cipher, keep_days: 1 }),
    createIdempotencyStore({ db, clock, cipher }),
  ];
  const keep = async (id: string) => {
    await items.keep(user_id, [{ type: "message", id } as Parameters<typeof items.keep>[1][number]], {
      is_free: false,
    });
    await keys.claim({ user_id, key: id, request: randomBytes(8) });
  };
  const kept = async () => [await rowsOf("response_item"), await rowsOf("idempotency_key")];
  await keep("before");
  expect(await kept()).toEqual([1, 1]);
  await db.transaction(async (tx) => {
    await accounts.eraseUser(tx, user_id);
    await items.forgetUser(tx, user_id);
    await keys.forgetUser(tx, user_id);
  });
  await keep("after");
  expect(await kept()).toEqual([0, 0]);
});

describe.skipIf(inject("storage").kind === "embedded")("at the same moment", () => {
  test("who comes while a user is being erased waits a moment at most, and leaves nothing", async () => {
    const commit = await held(erase);
    await addNotice(db);
    expect(await webhookKeys().keyOf({ user_id, agent_id })).toBeNull();
    await expect(addEndpoint()).rejects.toThrow("erased");
    const caller = { user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES };
    const newKey = accounts.createApiKey(caller, { name: "second key" });
    expect(asPurserError(await newKey.catch((error) => error)).shape).toMatchObject({ status: 404, code: "not_found" });
    await commit();
    await expectNothing();
  });

  test("no answer, response item or automatic top-up is stored for a user who is being erased", async () => {
    const cipher = createCipher(randomBytes(32), "kept");
    const [items, keys] = [
      createItemsStore({ db, clock, cipher, keep_days: 1 }),
      createIdempotencyStore({ db, clock, cipher }),
    ];
    const commit = await held(async (tx) => {
      await erase(tx);
      await items.forgetUser(tx, user_id);
      await keys.forgetUser(tx, user_id);
    });
    const settings = { enabled: true, threshold_tokens: 1, amount_cents: 100, monthly_cap_cents: 100 };
    const row = { user_id, ...settings, paused_reason: null, paused_at: null };
    const setting = db.transaction((tx) => createAutoTopupStore(db).upsert(tx, row));
    const claim = keys.claim({ user_id, key: "late", request: randomBytes(8) });
    await Promise.all([expect(claim).rejects.toThrow("erased"), expect(setting).rejects.toThrow("erased")]);
    await items.keep(user_id, [{ type: "message", id: "late" } as Parameters<typeof items.keep>[1][number]], {
      is_free: false,
    });
    await commit();
    for (const table of ["idempotency_key", "response_item", "response", "auto_topup"])
      expect(await rowsOf(table), table).toBe(0);
  });

  test("an operator's change of a user does not stop writes for this user", async () => {
    const commit = await held(async (tx) => {
      const user = await accounts.lockUser(tx, user_id);
      await accounts.setLimits(tx, user, { concurrent_runs: 1 });
    });
    const written = await Promise.allSettled([addNotice(db), addEndpoint()]);
    await commit();
    expect(written).toMatchObject([{ status: "fulfilled" }, { status: "fulfilled" }]);
    expect([await rowsOf("notice"), await rowsOf("webhook_endpoint")]).toEqual([1, 1]);
  });

  test("a change of the e-mail address does not stop writes for this user", async () => {
    const commit = await held((tx) => accounts.setEmail(tx, user_id, `${newId()}@example.com`));
    const written = Promise.allSettled([addNotice(db), addEndpoint()]);
    const waiting = { text: "select from pg_locks where not granted" };
    await expect.poll(async () => (await db.query(waiting)).length, { interval: 5 }).toBeGreaterThan(0);
    await commit();
    expect(await written).toMatchObject([{ status: "fulfilled" }, { status: "fulfilled" }]);
    expect([await rowsOf("notice"), await rowsOf("webhook_endpoint")]).toEqual([1, 1]);
  });

  test("a row whose transaction was open when its user was erased is deleted, too", async () => {
    const commit = await held(addNotice);
    const erasing = db.transaction(erase);
    const waiting = { text: "select from pg_locks where not granted" };
    await expect.poll(async () => (await db.query(waiting)).length).toBeGreaterThan(0);
    await commit();
    await erasing;
    await expectNothing();
  });
});
