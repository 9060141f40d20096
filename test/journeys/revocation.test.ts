import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createAccounts } from "../../src/account/users/accounts.service.ts";
import { createAccountsStore } from "../../src/account/users/accounts.store.ts";
import { createAuthentication } from "../../src/account/users/authentication.ts";
import { createSessions } from "../../src/account/users/sessions.ts";
import { createSignInStore } from "../../src/account/users/sign-in.store.ts";
import { ALL_BUCKETS, newApiKey } from "../../src/account/users/tokens.ts";
import { createActs } from "../../src/operator/acts.service.ts";
import { createOperatorKeys } from "../../src/operator/operator-keys.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/** contract 3: every node rejects a revoked key within 1 s (open-mercato#4034, executor#1870). */

const clock = createSystemClock();
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

async function newKey(db: Db, accounts: Awaited<ReturnType<typeof createAccounts>>) {
  const email = `${crypto.randomUUID()}@example.com`;
  const { user, api_key } = await db.transaction((tx) => accounts.createUser(tx, { email, key_name: "key" }));
  return { user_id: user.id, id: api_key.id, authorization: `Bearer ${api_key.key}` };
}

describe("invented keys", () => {
  it("use one connection to the database, however many arrive at the same time, and do not hide a real key among them", async () => {
    const db = await database.open();
    const accounts = await createAccounts({ db, clock });
    const key = await newKey(db, accounts);
    const store = createAccountsStore(db);
    const queries: number[] = [];
    let running = 0;
    const counted = async (hashes: readonly Buffer[]) => {
      running += 1;
      queries.push(running);
      const found = await store.keysByHash(hashes);
      running -= 1;
      return found;
    };
    const { authenticate, close } = await createAuthentication({ db, clock, store: { ...store, keysByHash: counted } });
    const answers = await Promise.all(
      [...Array.from({ length: 1_000 }, () => `Bearer ${newApiKey("00")}`), key.authorization].map((authorization) =>
        authenticate(authorization).then(
          ({ user_id }) => user_id,
          ({ code }) => code,
        ),
      ),
    );
    expect(answers.pop()).toBe(key.user_id);
    expect(new Set(answers)).toEqual(new Set(["invalid_api_key"]));
    expect(Math.max(...queries)).toBe(1);
    expect(queries.length).toBeLessThan(30);
    await close();
    await accounts.close();
    await db.close();
  });
});

describe("a changed key", () => {
  it("is used by the next request to the node that changed it, before any notification arrives", async () => {
    const db = await database.open();
    const without_notifications: Db = { ...db, listen: async () => async () => {} };
    const accounts = await createAccounts({ db: without_notifications, clock });
    const key = await newKey(db, accounts);
    const caller = await accounts.authenticate(key.authorization);
    await accounts.updateApiKey(caller, key.id, { allowed_models: ["lab/odd"] });
    expect((await accounts.authenticate(key.authorization)).allowed_models).toEqual(["lab/odd"]);

    const suspend = (suspended: boolean) => db.transaction((tx) => accounts.setSuspended(tx, key.user_id, suspended));
    await suspend(true);
    await expect(accounts.authenticate(key.authorization)).rejects.toMatchObject({ code: "account_suspended" });
    await suspend(false);

    await accounts.authenticate(key.authorization);
    const rotated = await accounts.rotateApiKey(caller, key.id, 0);
    await expect(accounts.authenticate(key.authorization)).rejects.toMatchObject({ code: "revoked_api_key" });

    await accounts.authenticate(`Bearer ${rotated.key}`);
    await accounts.revokeApiKey(key.user_id, key.id);
    await expect(accounts.authenticate(`Bearer ${rotated.key}`)).rejects.toMatchObject({ code: "revoked_api_key" });
    await accounts.close();
    await db.close();
  });
});

describe("a changed session or operator key", () => {
  it("is used by the next request to the node that changed it, before any notification arrives", async () => {
    const db = await database.open();
    const without_notifications: Db = { ...db, listen: async () => async () => {} };
    const accounts = await createAccounts({ db, clock });
    const { user_id } = await newKey(db, accounts);
    const store = createSignInStore(db);
    const sessions = await createSessions({ db: without_notifications, clock, store, routing_buckets: ALL_BUCKETS });
    const begin = async () => {
      const begun = await sessions.begin(db, { id: user_id, email: "ada@example.com" }, "hash");
      await sessions.who(begun?.token ?? "");
      return begun?.token ?? "";
    };
    await db.transaction((tx) =>
      store.setPassword(tx, { user_id, hash: "hash", now: clock.now(), proven_email: null }),
    );
    const [one, two] = [await begin(), await begin()];
    await sessions.end(one);
    await expect(sessions.who(one)).rejects.toMatchObject({ code: "session_expired" });
    await sessions.who(two);
    await db.transaction((tx) => sessions.endAll(tx, user_id));
    await expect(sessions.who(two)).rejects.toMatchObject({ code: "session_expired" });

    const acts = createActs({ db, clock });
    const operators = await createOperatorKeys({
      db: without_notifications,
      clock,
      acts,
      admin_key: "the root operator's key",
    });
    const actor = { id: null, name: "PURSER_ADMIN_KEY", request_id: "req" };
    const { id, key } = await operators.create(actor, { name: "Grace", role: "support" }, undefined);
    await operators.authenticate(key);
    const rotated = await operators.rotate(actor, id, { grace_seconds: 0 });
    await expect(operators.authenticate(key)).rejects.toMatchObject({ code: "revoked_api_key" });
    await operators.authenticate(rotated.key);
    await operators.revoke(actor, id, undefined);
    await expect(operators.authenticate(rotated.key)).rejects.toMatchObject({ code: "revoked_api_key" });
    for (const each of [accounts, sessions, operators, db]) await each.close();
  });
});

describe("a revoked key", () => {
  it("is not cached by a request that read it before the revocation and gets the notification later", async () => {
    const db = await database.open();
    const accounts = await createAccounts({ db, clock });
    const key = await newKey(db, accounts);
    const store = createAccountsStore(db);
    const read = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const slow = async (hashes: readonly Buffer[]) => {
      const key_rows = await store.keysByHash(hashes);
      read.resolve();
      await goOn.promise;
      return key_rows;
    };
    const { authenticate, close } = await createAuthentication({ db, clock, store: { ...store, keysByHash: slow } });
    const notified = Promise.withResolvers<string>();
    await db.listen("api_key_changed", notified.resolve);

    const early = authenticate(key.authorization);
    await read.promise;
    await accounts.revokeApiKey(key.user_id, key.id);
    expect(await notified.promise).toBe(key.id);
    goOn.resolve();
    await early;
    await expect(authenticate(key.authorization)).rejects.toMatchObject({ code: "revoked_api_key" });
    await close();
    await accounts.close();
    await db.close();
  });

  it.runIf(inject("storage").kind === "postgres")(
    "is rejected within a second by a node whose listening connection has silently died",
    { retry: 2 },
    async () => {
      const [here, there] = [await database.open(), await database.open()];
      const accounts = await createAccounts({ db: here, clock });
      const key = await newKey(here, accounts);
      const known = await listeningBackends(here);
      const elsewhere = await createAccounts({ db: there, clock });
      await elsewhere.authenticate(key.authorization);
      const [backend] = (await listeningBackends(here)).filter((pid) => !known.includes(pid));
      process.kill(backend ?? Number.NaN, "SIGSTOP");
      try {
        await accounts.revokeApiKey(key.user_id, key.id);
        await expect
          .poll(() => elsewhere.authenticate(key.authorization).catch((error) => error.code), { timeout: 1000 })
          .toBe("revoked_api_key");
      } finally {
        process.kill(backend ?? Number.NaN, "SIGCONT");
      }
      for (const each of [accounts, elsewhere]) await each.close();
      for (const each of [here, there]) await each.close();
    },
  );
});

/** Backends of connections that listen. No other connection of this test is idle after these statements. */
async function listeningBackends(db: Db): Promise<number[]> {
  const rows = await db.query<{ pid: number }>({
    text: `select pid from pg_stat_activity where datname = current_database()
      and (query = 'select 1' or query ilike 'listen%') order by pid`,
  });
  return rows.map(({ pid }) => pid);
}
