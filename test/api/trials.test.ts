import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTrials } from "../../src/account/users/trials.service.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { openBrowser } from "../support/browser.ts";
import { createTestDatabase } from "../support/database.ts";
import { type Service, startService } from "../support/service.ts";
import { signUp } from "../support/sign-up.ts";

const PASSWORD = "correct horse battery";

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** The result of a sign-up with this address. */
async function trialOf(email: string) {
  const browser = openBrowser(service.url);
  const { status, body } = await signUp(service, { email, password: PASSWORD }, browser);
  expect(status).toBe(201);
  const me = (await browser.get("/users/me")).body;
  return { id: body.user.id, told: body.trial, balance: me.token_balance, is_trial: me.is_trial };
}
const GRANTED = { told: "granted", balance: 625_000, is_trial: true };
const USED = { told: "used_before", balance: 0, is_trial: false };
const erase = (id: string) => service.admin.request("DELETE", `/api/v1/admin/users/${id}`);

describe("farming trials (contract 3: once per normalised address)", () => {
  it("other spellings of one mailbox get an account without a trial, and the answer says so", async () => {
    expect(await trialOf("ada.lovelace@gmail.com")).toMatchObject(GRANTED);
    for (const email of ["adalovelace+1@gmail.com", "a.d.a.lovelace@gmail.com", "Ada.Lovelace@googlemail.com"]) {
      expect(await trialOf(email), email).toMatchObject(USED);
    }
    expect(await trialOf("ada.lovelace@example.org")).toMatchObject(GRANTED);
    expect(await trialOf("adalovelace@example.org")).toMatchObject(GRANTED);
  });

  it("the domains of one provider are one mailbox", async () => {
    expect(await trialOf("ada.lovelace@me.com")).toMatchObject(GRANTED);
    expect(await trialOf("ada.lovelace@icloud.com")).toMatchObject(USED);
    expect(await trialOf("adalovelace@icloud.com")).toMatchObject(GRANTED);
    expect(await trialOf("ada.lovelace@yandex.com")).toMatchObject(GRANTED);
    expect(await trialOf("ada.lovelace@ya.ru")).toMatchObject(USED);
  });

  it("deleting the account and signing up again gets none", async () => {
    const { id } = await trialOf("grace@example.org");
    expect((await erase(id)).status).toBe(204);
    expect(await trialOf("grace+again@example.org")).toMatchObject(USED);
    expect((await service.admin.get("/api/v1/admin/audit")).body.ok).toBe(true);
  });

  it("sign-ups of one mailbox at the same moment get one trial", async () => {
    const found = await Promise.all([1, 2, 3, 4].map((n) => trialOf(`alan+${n}@example.org`)));
    expect(found.map(({ told }) => told).sort()).toEqual(["granted", "used_before", "used_before", "used_before"]);
  });

  it("a trial by the operator counts, a user without one does not, and the operator may give another", async () => {
    const make = async (email: string, trial: boolean) =>
      (await service.admin.post("/api/v1/admin/users", { email, trial })).body.user;
    await erase((await make("with@example.org", true)).id);
    expect(await trialOf("with@example.org")).toMatchObject(USED);
    await erase((await make("without@example.org", false)).id);
    expect(await trialOf("without@example.org")).toMatchObject(GRANTED);
    expect(await make("with+more@example.org", true)).toMatchObject({ is_trial: true, token_balance: 625_000 });
  });
});

it("only a hash of the address is stored, which needs the service's key and stays after the user's erasure", async () => {
  const database = await createTestDatabase();
  const db = await database.open();
  const key = randomBytes(32);
  const trials = createTrials({ cipher: createCipher(key, "trials") });
  expect(await db.transaction((tx) => trials.take(tx, "ada@example.org"))).toBe(true);
  const other = createTrials({ cipher: createCipher(randomBytes(32), "trials") });
  expect(await db.transaction((tx) => other.take(tx, "ada@example.org"))).toBe(true);
  const columns = { text: "select column_name from information_schema.columns where table_name = 'trial_mailbox'" };
  expect(await db.query(columns)).toEqual([{ column_name: "hash" }]);
  await db.close();
  await database.drop();
});
