import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createAccounts } from "../../src/accounts/accounts.service.ts";
import { createAccountsStore } from "../../src/accounts/accounts.store.ts";
import { createAuthentication } from "../../src/accounts/authentication.ts";
import { newApiKey } from "../../src/accounts/tokens.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/** contract 3: revoked means refused within 1 s on every node (open-mercato#4034, executor#1870). */

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
  it("take one connection to the database, however many come at one time, and a real one among them is found", async () => {
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

describe("a revoked key", () => {
  it("is not kept by a request that read it before and hears of it after", async () => {
    const db = await database.open();
    const accounts = await createAccounts({ db, clock });
    const key = await newKey(db, accounts);
    const store = createAccountsStore(db);
    const read = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const slow = async (hashes: readonly Buffer[]) => {
      const standings = await store.keysByHash(hashes);
      read.resolve();
      await goOn.promise;
      return standings;
    };
    const { authenticate, close } = await createAuthentication({ db, clock, store: { ...store, keysByHash: slow } });
    const heard = Promise.withResolvers<string>();
    await db.listen("api_key_changed", heard.resolve);

    const early = authenticate(key.authorization);
    await read.promise;
    await accounts.revokeApiKey(key.user_id, key.id);
    expect(await heard.promise).toBe(key.id);
    goOn.resolve();
    await early;
    await expect(authenticate(key.authorization)).rejects.toMatchObject({ code: "revoked_api_key" });
    await close();
    await accounts.close();
    await db.close();
  });

  it.runIf(inject("storage").kind === "postgres")(
    "is refused within a second by a node whose listening connection went silent without a word",
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

/** Backends of connections that listen: nothing else of this test stands idle after these words. */
async function listeningBackends(db: Db): Promise<number[]> {
  const rows = await db.query<{ pid: number }>({
    text: `select pid from pg_stat_activity where datname = current_database()
      and (query = 'select 1' or query ilike 'listen%') order by pid`,
  });
  return rows.map(({ pid }) => pid);
}
