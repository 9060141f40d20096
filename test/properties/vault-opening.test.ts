import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { SecretLeak } from "../../src/vault/vault.types.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { waitingForLocks } from "../support/postgres-server.ts";
import { newMasterKey, newSecret, usageAt, vaultNode } from "../support/vault.ts";

const KEK = newMasterKey("k1");
const PAGE = { limit: 100, before_id: null };

let database: TestDatabase;
let db: Db;
let vault: ReturnType<typeof vaultNode>;
let user: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  vault = vaultNode(db, KEK);
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(() => {
  user = newId();
});

describe("opening a secret", () => {
  it("returns a value that shows nothing when it is printed, joined or serialised", async () => {
    await vault.create(user, newSecret("TOKEN", "the value itself"));
    const opening = await vault.open(user, "TOKEN", usageAt("https://a.example"));
    if (opening.status !== "opened") throw new Error(opening.status);
    const { value } = opening.secret;
    expect(value.reveal()).toBe("the value itself");
    const shown = [`${value}`, String(value), JSON.stringify(opening), inspect(opening, { depth: 9 }), [value].join()];
    expect(shown.join()).not.toContain("the value");
    expect(Object.keys(value)).toEqual([]);
  });

  it("is recorded with the user, the host and the result, and nothing more", async () => {
    const secret = await vault.create(user, newSecret("TOKEN", "value", ["*.example.com"]));
    const [agent_id, run_id] = [newId(), newId()];
    const at = (url: string) => vault.open(user, "TOKEN", { agent_id, run_id, tool: "web_fetch", url: new URL(url) });
    expect((await at("https://api.example.com/v1?q=hunter2")).status).toBe("opened");
    expect((await at("https://evil.test/?q=hunter2")).status).toBe("host_refused");
    const uses = await vault.uses(user, secret.id, PAGE);
    const common = { secret_version: 1, agent_id, run_id, tool: "web_fetch" };
    expect(uses).toEqual([
      { ...common, id: uses[0]?.id, host: "evil.test", outcome: "host_refused", used_at: uses[0]?.used_at },
      { ...common, id: uses[1]?.id, host: "api.example.com", outcome: "opened", used_at: uses[1]?.used_at },
    ]);
    expect((await vault.get(user, secret.id)).last_used_at).toBe(uses[1]?.used_at);
    const rows = await db.query<{ name: string }>({
      text: "select column_name as name from information_schema.columns where table_name = 'secret_use' order by 1",
    });
    // Fixed columns: the log has no place for a request's body or address (OpenBao CVE-2025-62513, -62705).
    expect(rows.map(({ name }) => name)).toEqual(
      "agent_id host id outcome run_id secret_id secret_version tool used_at user_id".split(" "),
    );
  });

  it.each([
    ["deleted", "delete from secret where user_id = $1", { status: "not_found" }],
    ["disabled", "update secret set reflected_at = now() where user_id = $1", { status: "unreadable" }],
  ])("that is %s while it is being opened returns no value and records no use", async (_, text, expected) => {
    if (db.kind === "embedded") return; // one connection: nothing can happen in between
    const { id } = await vault.create(user, newSecret("TOKEN", "value"));
    const opening = await db.transaction(async (tx) => {
      await tx.query({ text, values: [user] });
      const opened = vault.open(user, "TOKEN", usageAt("https://a.example"));
      await expect.poll(async () => (await waitingForLocks(database.database_url ?? "")).length).toBeGreaterThan(0);
      return { opened };
    });
    expect(await opening.opened).toEqual(expected);
    const uses = { text: "select from secret_use where secret_id = $1 and outcome = 'opened'", values: [id] };
    expect(await db.query(uses)).toEqual([]);
  });

  it("finds only the user's own names", async () => {
    await vault.create(user, newSecret("TOKEN", "value"));
    expect(await vault.open(newId(), "TOKEN", usageAt("https://a.example"))).toEqual({ status: "not_found" });
    expect(await vault.open(user, "TOKENS", usageAt("https://a.example"))).toEqual({ status: "not_found" });
    expect(await vault.names(user)).toEqual([{ name: "TOKEN", allowed_hosts: null, only_tool: null }]);
  });

  it.each([
    ["a.example", "https://a.example/", "opened"],
    ["a.example", "https://A.EXAMPLE./", "opened"],
    ["a.example", "https://a.example:8443/", "host_refused"],
    ["a.example:8443", "https://a.example:8443/", "opened"],
    ["a.example:443", "https://a.example/", "opened"],
    ["*.example.com", "https://a.example.com/", "opened"],
    ["*.example.com", "https://example.com/", "host_refused"],
    ["*.example.com", "https://a.b.example.com/", "host_refused"],
    ["example.com", "https://example.com.evil.test/", "host_refused"],
    ["example.com", "https://evilexample.com/", "host_refused"],
    ["[::1]:8080", "http://[::1]:8080/", "opened"],
  ])("with allowed_hosts %s at %s: %s", async (host, url, status) => {
    await vault.create(user, newSecret("TOKEN", "value", [host]));
    expect((await vault.open(user, "TOKEN", usageAt(url))).status).toBe(status);
  });

  it("stops once a site sent the value back, until the value changes; its owner is notified once", async () => {
    const leaks: SecretLeak[] = [];
    const node = vaultNode(db, KEK, async (leak) => void leaks.push(leak));
    const { id } = await node.create(user, newSecret("TOKEN", "value"));
    const reflected = { user_id: user, id, version: 1, run_id: null };
    await node.setReflected(reflected);
    await node.setReflected(reflected);
    expect(leaks).toEqual([{ ...reflected, name: "TOKEN" }]);
    const status = async () => (await node.open(user, "TOKEN", usageAt("https://a.example"))).status;
    expect(await status()).toBe("reflected");
    await node.update(user, id, { description: "still the same" });
    expect(await status()).toBe("reflected");
    const same = await node.update(user, id, { value: "value" });
    expect([same.version, same.reflected_at === null, await status()]).toEqual([2, false, "reflected"]);
    const other = await node.update(user, id, { value: "another" });
    expect([other.reflected_at, await status()]).toEqual([null, "opened"]);
    await node.setReflected({ ...reflected, version: 2 });
    expect(await status()).toBe("opened");
  });

  it("of an erased user finds nothing, also for a request that began before", async () => {
    await vault.create(user, newSecret("TOKEN", "value"));
    await vault.open(user, "TOKEN", usageAt("https://a.example"));
    await db.transaction((tx) => vault.erase(tx, user));
    expect(await vault.open(user, "TOKEN", usageAt("https://a.example"))).toEqual({ status: "not_found" });
    await expect(vault.create(user, newSecret("LATE", "value"))).rejects.toMatchObject({ code: "not_found" });
    const left = await db.query({ text: "select wrapped, manifest from vault_key where user_id = $1", values: [user] });
    expect(left).toEqual([{ wrapped: null, manifest: null }]);
    for (const table of ["secret", "secret_use"]) {
      expect(await db.query({ text: `select 1 from ${table} where user_id = $1`, values: [user] })).toEqual([]);
    }
  });

  it("works while secrets change: no change is reported as tampering", async () => {
    const { id } = await vault.create(user, newSecret("TOKEN", "0"));
    const changes = (async () => {
      for (let n = 1; n <= 40; n += 1) {
        await vault.update(user, id, { value: `${n}` });
        await vault.create(user, newSecret(`S${n}`, "value"));
      }
    })();
    const statuses = new Set<string>();
    for (let n = 0; n < 120; n += 1) {
      statuses.add((await vault.open(user, "TOKEN", usageAt("https://a.example"))).status);
    }
    await changes;
    expect([...statuses]).toEqual(["opened"]);
  });
});
