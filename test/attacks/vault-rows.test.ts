import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { scoreOf } from "../support/score.ts";
import { newMasterKey, newSecret, usageAt, vaultNode } from "../support/vault.ts";

// An attacker who can write to the database but has no master key edits, swaps or restores rows: langgraph#9004,
// ChatbotX#951. The vault refuses to open them.

const KEK = newMasterKey("k1");
const VALUE = "the value";

const score = scoreOf("rows changed", "leaks");
let is_tampered: boolean;

let database: TestDatabase;
let db: Db;
let vault: ReturnType<typeof vaultNode>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  vault = vaultNode(db, KEK);
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

let user: string;
let first: string;
let second: string;
let other: string;
beforeEach(async () => {
  is_tampered = false;
  [user, other] = [newId(), newId()];
  first = (await vault.create(user, newSecret("FIRST", VALUE, ["a.example"]))).id;
  second = (await vault.create(user, newSecret("SECOND", "another value"))).id;
  await vault.create(other, newSecret("FIRST", "of another user"));
});

const run = (text: string, ...values: unknown[]) => db.query({ text, values });
const open = async (of = user, name = "FIRST") => {
  const status = await vault.open(of, name, usageAt("https://a.example")).then(
    (opening) => opening.status,
    (error) => error.code,
  );
  if (is_tampered) score.tried();
  if (is_tampered && status === "opened") score.slipped(name);
  return status;
};
/** Changes rows as an attacker does. From then on nothing opens. */
const tamper = (text: string, ...values: unknown[]) => {
  is_tampered = true;
  return run(text, ...values);
};

describe("a row that was changed from outside", () => {
  it("opens before it is changed", async () => {
    expect([await open(), await open(user, "SECOND"), await open(other)]).toEqual(["opened", "opened", "opened"]);
  });

  it.each<[string, string]>([
    [
      "one bit of the ciphertext",
      "sealed = set_byte(sealed, length(sealed) - 1, get_byte(sealed, length(sealed) - 1) # 1)",
    ],
    ["one bit of the tag", "sealed = set_byte(sealed, 64, get_byte(sealed, 64) # 1)"],
    ["one bit of the key commitment", "sealed = set_byte(sealed, 32, get_byte(sealed, 32) # 1)"],
    ["one bit of the salt", "sealed = set_byte(sealed, 0, get_byte(sealed, 0) # 1)"],
    ["cut short", "sealed = substring(sealed from 1 for 70)"],
    ["emptied", "sealed = ''"],
    ["its hosts widened", "allowed_hosts = null"],
    ["a host added", "allowed_hosts = array['a.example', 'evil.test']"],
    ["its version raised", "version = version + 1"],
  ])("%s: refused", async (_, set) => {
    await tamper(`update secret set ${set} where id = $1`, first);
    expect(await open()).toBe("unreadable");
  });

  it("values swapped between two secrets of one user are refused", async () => {
    await tamper(
      "update secret a set sealed = b.sealed from secret b where a.id in ($1, $2) and b.id in ($1, $2) and a.id <> b.id",
      first,
      second,
    );
    expect([await open(), await open(user, "SECOND")]).toEqual(["unreadable", "unreadable"]);
  });

  it("names swapped between two secrets of one user, which would send each to the other's hosts, are refused", async () => {
    await tamper("update secret set name = 'THIRD' where id = $1", first);
    await tamper("update secret set name = 'FIRST' where id = $1", second);
    expect([await open(), await open(user, "THIRD")]).toEqual(["unreadable", "unreadable"]);
  });

  it("a value in another user's row, or a whole row moved to another user, is refused", async () => {
    await tamper(
      "update secret set sealed = (select sealed from secret where id = $1) where user_id = $2 and name = 'FIRST'",
      first,
      other,
    );
    expect(await open(other)).toBe("unreadable");
    await tamper("update secret set user_id = $1 where id = $2", other, second);
    expect(await open(other, "SECOND")).toBe("unreadable");
  });

  it("data keys that are swapped between two users, or shared by them, are refused", async () => {
    await tamper(
      `update vault_key a set wrapped = b.wrapped, manifest = b.manifest from vault_key b
        where a.user_id in ($1, $2) and b.user_id in ($1, $2) and a.user_id <> b.user_id`,
      user,
      other,
    );
    expect([await open(), await open(other)]).toEqual(["vault_unavailable", "vault_unavailable"]);
  });

  it("a data key with another version or another master key's id is refused", async () => {
    await tamper("update vault_key set version = 2 where user_id = $1", user);
    expect(await open()).toBe("vault_unavailable");
    await tamper("update vault_key set version = 1, kek_id = 'k2' where user_id = $1", user);
    expect(await open()).toBe("vault_unavailable");
  });

  it("restored to the state before its value changed is refused, and so is every later change", async () => {
    await run("create table kept as select * from secret where id = $1", first);
    await vault.update(user, first, { value: "revoked the old one" });
    expect(await open()).toBe("opened");
    await tamper("delete from secret where id = $1", first);
    await tamper("insert into secret select * from kept");
    await run("drop table kept");
    expect(await open()).toBe("unreadable");
    expect(await open(user, "SECOND")).toBe("unreadable");
    // Otherwise the next change would seal the restored value.
    await expect(vault.create(user, newSecret("THIRD", "value"))).rejects.toMatchObject({ code: "vault_unavailable" });
    await expect(vault.remove(user, second)).rejects.toMatchObject({ code: "vault_unavailable" });
  });

  it("restored to its former wider hosts, without a new version, is refused", async () => {
    const [kept] = await db.query<{ sealed: Uint8Array }>({
      text: "select sealed from secret where id = $1",
      values: [first],
    });
    await vault.update(user, first, { allowed_hosts: [] });
    await tamper(
      "update secret set sealed = $2, allowed_hosts = array['a.example'] where id = $1",
      first,
      kept?.sealed,
    );
    expect(await open()).toBe("unreadable");
  });

  it("restored after its deletion, or deleted without the vault, makes the user's other secrets refused", async () => {
    await run("create table gone as select * from secret where id = $1", first);
    await vault.remove(user, first);
    expect(await open(user, "SECOND")).toBe("opened");
    await tamper("insert into secret select * from gone");
    await run("drop table gone");
    expect([await open(), await open(user, "SECOND")]).toEqual(["unreadable", "unreadable"]);
    await tamper("delete from secret where user_id = $1 and name = 'FIRST'", other);
    await expect(vault.create(other, newSecret("NEW", "value"))).rejects.toMatchObject({ code: "vault_unavailable" });
  });

  it("whose leak mark was removed is refused", async () => {
    await vault.setReflected({ user_id: user, id: first, version: 1, run_id: null });
    await tamper("update secret set reflected_at = null where id = $1", first);
    expect(await open()).toBe("unreadable");
  });

  it("cannot keep its user from being erased", async () => {
    await tamper("update secret set sealed = '' where id = $1", first);
    await tamper("update vault_key set wrapped = 'x', manifest = 'x' where user_id = $1", user);
    await db.transaction((tx) => vault.erase(tx, user));
    expect(await open()).toBe("not_found");
  });
});
