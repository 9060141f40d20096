import { randomInt } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seededRandom } from "../../bench/support/statistics.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startPurser } from "../support/process.ts";
import { newMasterKey, newSecret, usageAt, vaultNode } from "../support/vault.ts";

const USERS = 250;
const KILLS = 3;
const [OLD, NEW] = [newMasterKey("old"), newMasterKey("new")];

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** `npm run rotate-keys`. It is killed `kill_after_ms` after its first line about its progress, if that is set. */
async function rotate(kek: string, kill_after_ms: number | null) {
  const { data_dir, database_url } = database;
  const env = { DATA_DIR: data_dir, PURSER_KEK: kek };
  const child = startPurser(["rotate-keys"], database_url === null ? env : { ...env, DATABASE_URL: database_url });
  if (kill_after_ms !== null) {
    await expect.poll(child.stdout, { timeout: 60_000, interval: 2 }).not.toBe("");
    await setTimeout(kill_after_ms);
    child.kill();
  }
  return child.ended;
}

describe("rotating the master key (n8n#22478)", () => {
  it(`loses no secret, though it is killed ${KILLS} times on the way`, async () => {
    const seed = randomInt(2 ** 31);
    process.stdout.write(`rotation seed ${seed}\n`);
    const random = seededRandom(seed);
    const users = Array.from({ length: USERS }, () => newId());
    const before = await database.open();
    const old = vaultNode(before, OLD);
    await old.keys.ofService();
    for (const [index, user] of users.entries()) await old.create(user, newSecret("TOKEN", `value ${index}`));
    await before.close();

    let rewrapped_by_the_killed = 0;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const { stdout } = await rotate(`${NEW},${OLD}`, Math.floor(random() * 60));
      rewrapped_by_the_killed += Number(/(\d+) keys rewrapped so far\n?$/.exec(stdout)?.[1] ?? 0);
    }
    expect(rewrapped_by_the_killed).toBeGreaterThan(0);
    const last = await rotate(`${NEW},${OLD}`, null);
    expect([last.code, last.stderr]).toEqual([0, ""]);
    expect(last.stdout).toMatch(
      /all are under new now\nthe database does not need old any more; backups of before need it/,
    );

    const after = await database.open();
    const vault = vaultNode(after, NEW);
    await vault.keys.check();
    for (const [index, user] of users.entries()) {
      const opening = await vault.open(user, "TOKEN", usageAt("https://a.example"));
      expect(opening.status === "opened" && opening.secret.value.reveal()).toBe(`value ${index}`);
    }
    await expect(vaultNode(after, OLD).keys.check()).rejects.toThrow(/^PURSER_KEK: the key new is missing,/);
    await after.close();
  }, 180_000);

  it("does not begin if a key in use is missing", async () => {
    const { code, stdout, stderr } = await rotate(newMasterKey("another"), null);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^PURSER_KEK: the key new is missing[^\n]*\n$/);
  });

  it("continues after a row that was changed from outside, and reports it", async () => {
    const db = await database.open();
    const [kek, next] = [newMasterKey("before"), newMasterKey("after")];
    const [broken, whole] = [newId(), newId()];
    for (const user of [broken, whole]) await vaultNode(db, kek).create(user, newSecret("TOKEN", "value"));
    await db.query({ text: "update vault_key set wrapped = 'x' where user_id = $1", values: [broken] });
    const { unreadable } = await vaultNode(db, `${next},${kek}`).keys.rewrapAll(() => {});
    // The key of users of earlier tests, whose master key is missing here.
    const others = await db.query({ text: "select 1 from vault_key where kek_id = 'new'" });
    expect(unreadable).toBe(1 + others.length);
    expect((await vaultNode(db, next).open(whole, "TOKEN", usageAt("https://a.example"))).status).toBe("opened");
    await db.close();
  });

  it("also happens at a write: a user who writes a secret gets their key under the current master key", async () => {
    const db = await database.open();
    const [user, current] = [newId(), newMasterKey("current")];
    await vaultNode(db, NEW).create(user, newSecret("TOKEN", "value"));
    const kek = async () =>
      (await db.query({ text: "select kek_id from vault_key where user_id = $1", values: [user] }))[0];
    const vault = vaultNode(db, `${current},${NEW}`);
    expect((await vault.open(user, "TOKEN", usageAt("https://a.example"))).status).toBe("opened");
    expect(await kek()).toEqual({ kek_id: "new" });
    await vault.create(user, newSecret("OTHER", "value"));
    expect(await kek()).toEqual({ kek_id: "current" });
    expect((await vaultNode(db, current).open(user, "TOKEN", usageAt("https://a.example"))).status).toBe("opened");
    await db.close();
  });
});
