import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dumpSchema } from "../../migrations/schema.ts";
import { PAYMENT_INVARIANTS } from "../../src/billing/payments-audit.store.ts";
import { createLedger } from "../../src/ledger/ledger.service.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { applyDefinitions, RETIRED_FUNCTIONS } from "../../src/platform/sql-functions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { FLAGS, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { usageAt, vaultNode } from "../support/vault.ts";
import { BEGIN, SECRET } from "../upgrades/fill.ts";
import { createFilledDatabase, fixtures, hashOf, KEK, migrationsOf, readRows, stateOf } from "../upgrades/fixture.ts";
import { withoutNode } from "../upgrades/raw-source.ts";

// This version opens databases that earlier versions have filled. test/upgrades/README.md says how they are made.

const ROOT = join(import.meta.dirname, "../..");
const SCHEMA = readFileSync(join(ROOT, "schema.sql"), "utf8");
/** Columns with values that migrations dropped on purpose. After 0.1.0, the link of a sign-up sets the password. */
const DROPPED: Record<string, string[]> = { "0.1.0": ["sign_up.password_hash"] };

/** Opens a database as a node does. */
async function withNode<T>(database: TestDatabase, work: (db: Db) => Promise<T>): Promise<T> {
  const db = await database.open();
  return work(db).finally(() => db.close());
}

describe.each(fixtures())("a filled database of %s, upgraded", (release) => {
  let before: Awaited<ReturnType<typeof readRows>>;
  let database: TestDatabase;
  let db: Db;
  beforeAll(async () => {
    database = await createFilledDatabase(release);
    before = (await stateOf(database)).rows;
    db = await database.open();
  });
  afterAll(async () => {
    await db.close();
    await database.drop();
  });

  it("was made by migrations that have not changed since", () => {
    for (const { name, text, sha256 } of migrationsOf(release)) expect(hashOf(text), name).toBe(sha256);
  });

  it("has the schema of a new database", async () => {
    expect(await dumpSchema(db)).toBe(SCHEMA);
  });

  it("has every row, with the value of every column", async () => {
    const after = await readRows(db);
    const dropped = new Set<string>();
    for (const [table, rows] of Object.entries(before)) {
      const columns = new Set(Object.keys(after[table]?.[0] ?? {}));
      const kept = rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => columns.has(name))));
      for (const name of Object.keys(rows[0] ?? {})) if (!columns.has(name)) dropped.add(`${table}.${name}`);
      expect(after[table], table).toHaveLength(rows.length);
      expect(after[table], table).toMatchObject(kept);
    }
    expect([...dropped]).toEqual(DROPPED[release] ?? []);
  });

  it("has a ledger whose hashes verify and whose balances are those of its entries", async () => {
    const ledger = createLedger({ db, clock: createSystemClock(), invariants: PAYMENT_INVARIANTS });
    const { ok, violations, checked } = await ledger.audit();
    expect([ok, violations]).toEqual([true, []]);
    expect(checked.entries).toBe(before.entry?.length);
    expect(checked.entries).toBeGreaterThan(0);
  });

  it("counts its runs at work", async () => {
    const text = "select coalesce(sum(runs), 0)::integer as runs from runs_at_work where user_id = $1";
    const [total] = await db.query<{ runs: number }>({ text, values: ["00000000-0000-0000-0000-000000000000"] });
    const at_work = before.run?.filter(({ status }) => status === "running" || status === "cancelling");
    expect(total?.runs).toBe(at_work?.length);
  });

  it("opens its secrets", async () => {
    const text = "select user_id, allowed_hosts[1] as host from secret";
    const [secret] = await db.query<{ user_id: string; host: string }>({ text });
    const usage = usageAt(`http://${secret?.host}/prices`);
    const opened = await vaultNode(db, KEK).open(secret?.user_id ?? "", "HARBOUR_KEY", usage);
    expect(opened.status === "opened" && opened.secret.value.reveal()).toBe(SECRET);
  });
});

describe("a database of release 0.1.0", () => {
  let filled: TestDatabase;
  let before: Awaited<ReturnType<typeof stateOf>>;
  beforeAll(async () => {
    filled = await createFilledDatabase("0.1.0");
    before = await stateOf(filled);
  });
  afterAll(() => filled.drop());

  it("is served by this version, which records the trials of its users", async () => {
    const database = await createTestDatabase(filled);
    const service = startProcess({
      PORT: "0",
      DATA_DIR: database.data_dir,
      ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
      PURSER_ADMIN_KEY: ADMIN_KEY,
      PURSER_KEK: KEK,
      PURSER_PAYMENTS: "sandbox",
      PURSER_TEST_CLOCK: BEGIN,
    });
    const headers = { Authorization: `Bearer ${ADMIN_KEY}` };
    const ask = async (path: string) =>
      (await fetch(`${await service.listening}/api/v1/admin/${path}`, { headers })).json();
    expect(await ask("audit")).toMatchObject({ ok: true, violations: [] });
    expect((await ask("users")).users.map(({ email }: { email: string | null }) => email)).toContain("ada@example.com");
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
    const { rows } = await stateOf(database);
    expect([rows.trial_backlog, rows.trial_mailbox?.length]).toEqual([[], 1]);
    await database.drop();
  });

  it("has the functions of a new database, and keeps the retired ones for nodes of 0.1.0 until the next release", async () => {
    const [fresh, upgraded] = [await createTestDatabase(), await createTestDatabase(filled)];
    const functions = (db: Db) =>
      db.query<{ signature: string; source: string }>({
        text: `select oid::regprocedure::text as signature, pg_get_functiondef(oid) as source from pg_proc
          where pronamespace = 'public'::regnamespace order by 1`,
      });
    const signatures = "select to_regprocedure(name)::text as signature from unnest($1::text[]) as name";
    const values = [RETIRED_FUNCTIONS.map(({ signature }) => signature)];
    const retired = (db: Db) => db.query<{ signature: string | null }>({ text: signatures, values });

    const expected = await withNode(fresh, functions);
    expect(await withNode(fresh, retired)).toEqual(values[0]?.map(() => ({ signature: null })));
    await withNode(upgraded, async (db) => {
      const old = (await retired(db)).flatMap(({ signature }) => signature ?? []);
      expect(old).toContain("ledger_apply(json,timestamp with time zone,integer)");
      const all = await functions(db);
      expect(all.filter(({ signature }) => !old.includes(signature))).toEqual(expected);
      expect(all).toHaveLength(expected.length + old.length);
    });
    await withoutNode(upgraded, (connection) => applyDefinitions(connection, { release: "1.1.0" }));
    expect(await withNode(upgraded, functions)).toEqual(expected);
    await Promise.all([fresh.drop(), upgraded.drop()]);
  });

  it("is unchanged if a step of the upgrade fails, and is upgraded once the cause is gone", async () => {
    const database = await createTestDatabase(filled);
    await withoutNode(database, ({ script }) => script("create index payment_mismatched on payment (id)"));
    const obstructed = await stateOf(database);
    await expect(database.open()).rejects.toThrow(
      /upgrade from release 0\.1\.0 failed and changed nothing.*payment_mismatched/,
    );
    expect(await stateOf(database)).toEqual(obstructed);
    await withoutNode(database, ({ script }) => script("drop index payment_mismatched"));
    expect(await withNode(database, dumpSchema)).toBe(SCHEMA);
    await database.drop();
  });

  it("is unchanged if the node is killed before the upgrade's commit, and is upgraded by the next node", async () => {
    const database = await createTestDatabase(filled);
    const given = [database.data_dir, ...(database.database_url === null ? [] : [database.database_url])];
    const node = spawn(process.execPath, [...FLAGS, join(ROOT, "test/upgrades/stopping-node.ts"), ...given], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = await once(node.stdout, "data");
    expect(String(said)).toBe("before the commit\n");
    node.kill("SIGKILL");
    await once(node, "exit");
    expect(await stateOf(database)).toEqual(before);
    expect(await withNode(database, dumpSchema)).toBe(SCHEMA);
    await database.drop();
  });
});
