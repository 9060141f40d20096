import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import { dumpSchema } from "../../migrations/schema.ts";
import { PAYMENT_INVARIANTS } from "../../src/billing/payments-audit.store.ts";
import { createLedger } from "../../src/ledger/ledger.service.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";
import { migrate } from "../../src/platform/migrate.ts";
import { applyDefinitions, RETIRED_FUNCTIONS } from "../../src/platform/sql-functions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";
import { usageAt, vaultNode } from "../support/vault.ts";
import { SECRET } from "../upgrades/fill.ts";
import { applyMigrations, clear, fixtures, KEK, loadFixture, migrationsOf } from "../upgrades/fixture.ts";
import { openRaw } from "../upgrades/raw-source.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "migrations");
const SCHEMA = readFileSync(join(ROOT, "schema.sql"), "utf8");
const BASELINE = readdirSync(FOLDER).filter((name) => name.startsWith("1000_"));
const OLD = migrationsOf("0.1.0");
const LATER = readdirSync(join(FOLDER, "from-0.1.0"))
  .filter((name) => name.endsWith(".sql"))
  .sort()
  .map((name) => ({ name, text: readFileSync(join(FOLDER, "from-0.1.0", name), "utf8") }));

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

/** Changes the database before the node of the test starts. */
async function prepare(change: (db: Db) => Promise<void>): Promise<void> {
  const db = await database.open();
  await change(db);
  await db.close();
}

/** Opens the database as a node does. */
async function withNode<T>(work: (db: Db) => Promise<T>): Promise<T> {
  const db = await database.open();
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

/** Reads the database without a node. */
async function withoutNode<T>(work: (connection: Awaited<ReturnType<typeof openRaw>>["connection"]) => Promise<T>) {
  const { connection, close } = await openRaw(database);
  try {
    return await work(connection);
  } finally {
    await close();
  }
}

type Rows = Record<string, Record<string, unknown>[]>;

/** All rows of all tables but the two that record the schema. */
async function readRows(query: <Row>(text: string) => Promise<Row[]>): Promise<Rows> {
  const tables = await query<{ name: string }>(`select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and relname not in ('schema_migration', 'sql_definition')`);
  const one = tables
    .map(({ name }) => `select '${name}' as name, to_jsonb(t) as row from ${name} t`)
    .join(" union all ");
  const rows = await query<{ name: string; row: Record<string, unknown> }>(`${one} order by name, row`);
  const all: Rows = Object.fromEntries(tables.map(({ name }) => [name, []]));
  for (const { name, row } of rows) all[name]?.push(row);
  return all;
}
const rowsOf = (db: Db) => readRows(<Row>(text: string) => db.query<Row>({ text }));
const history = (db: Db) => db.query({ text: `select name from schema_migration order by name collate "C"` });
const audit = (db: Db) => createLedger({ db, clock: createSystemClock(), invariants: PAYMENT_INVARIANTS }).audit();
/** All functions with their source. */
const functions = (db: Db) =>
  db.query<{ signature: string; source: string }>({
    text: `select oid::regprocedure::text as signature, pg_get_functiondef(oid) as source from pg_proc
      where pronamespace = 'public'::regnamespace order by 1`,
  });

describe.each(fixtures())("a filled database of %s, upgraded", (release) => {
  let before: Rows;
  let upgraded: TestDatabase;
  let db: Db;
  beforeAll(async () => {
    upgraded = await createTestDatabase();
    const filling = await upgraded.open();
    await loadFixture(filling, release);
    before = await rowsOf(filling);
    await filling.close();
    db = await upgraded.open();
  });
  afterAll(async () => {
    await db.close();
    await upgraded.drop();
  });

  it("has the schema of a new database", async () => {
    expect(await dumpSchema(db)).toBe(SCHEMA);
  });

  it("has every row, in every column that it had", async () => {
    const after = await rowsOf(db);
    const dropped = new Set<string>();
    for (const [table, rows] of Object.entries(before)) {
      const columns = new Set(Object.keys(after[table]?.[0] ?? {}));
      const kept = rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => columns.has(name))));
      for (const name of Object.keys(rows[0] ?? {})) if (!columns.has(name)) dropped.add(`${table}.${name}`);
      expect(after[table], table).toHaveLength(rows.length);
      expect(after[table], table).toMatchObject(kept);
    }
    // The link of a sign-up sets the password since then.
    expect([...dropped]).toEqual(release === "0.1.0" ? ["sign_up.password_hash"] : []);
  });

  it("has a ledger whose hashes verify and whose balances are those of its entries", async () => {
    const { ok, violations, checked } = await audit(db);
    expect([ok, violations]).toEqual([true, []]);
    expect(checked.entries).toBe(before.entry?.length);
    expect(checked.entries).toBeGreaterThan(0);
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
  const state = () =>
    withoutNode(async (connection) => {
      const query = async <Row>(text: string) => (await connection.query<Row>({ text })).rows;
      const schema = await dumpSchema({ query: async ({ text }: { text: string }) => query(text) } as Db);
      return {
        schema,
        history: await query("select * from schema_migration order by name"),
        rows: await readRows(query),
      };
    });

  it("has the baseline as its history after the upgrade, and is not upgraded again", async () => {
    await prepare((db) => loadFixture(db, "0.1.0"));
    const times = { text: "select name, applied_at from schema_migration" };
    const first = await withNode((db) => db.query(times));
    expect(await withNode((db) => history(db).then((rows) => rows.slice(0, BASELINE.length)))).toEqual(
      BASELINE.map((name) => ({ name })),
    );
    expect(await withNode((db) => db.query(times))).toEqual(first);
  });

  it.each([
    ["the first later step", LATER.slice(0, 1)],
    ["all later steps", LATER],
  ])("that a development version has given %s becomes the same", async (_, steps) => {
    await prepare(async (db) => {
      await loadFixture(db, "0.1.0");
      await applyMigrations(db, steps);
    });
    await withNode(async (db) => {
      expect(await dumpSchema(db)).toBe(SCHEMA);
      expect((await history(db)).slice(0, BASELINE.length)).toEqual(BASELINE.map((name) => ({ name })));
    });
  });

  it("has the functions of a new database and, for nodes of 0.1.0 beside it, the retired ones until the release after", async () => {
    const fresh = await withNode(functions);
    const signatures = `select to_regprocedure(name)::text as signature from unnest($1::text[]) as name`;
    const values = [RETIRED_FUNCTIONS.map(({ signature }) => signature)];
    const retired = (db: Db) => db.query<{ signature: string | null }>({ text: signatures, values });
    expect(await withNode(retired)).toEqual(RETIRED_FUNCTIONS.map(() => ({ signature: null })));
    await prepare((db) => loadFixture(db, "0.1.0"));
    await withNode(async (db) => {
      const old = (await retired(db)).map(({ signature }) => signature);
      expect(old).not.toContain(null);
      const upgraded = await functions(db);
      expect(upgraded.filter(({ signature }) => !old.includes(signature))).toEqual(fresh);
      expect(upgraded).toHaveLength(fresh.length + old.length);
    });
    await withoutNode((connection) => applyDefinitions(connection, { release: "1.1.0" }));
    expect(await withNode(functions)).toEqual(fresh);
  });

  it("is as before when a step of the upgrade fails, and is upgraded when the cause is gone", async () => {
    await prepare(async (db) => {
      await loadFixture(db, "0.1.0");
      await db.query({ text: "create index payment_mismatched on payment (id)" });
    });
    const before = await state();
    await expect(database.open()).rejects.toThrow(
      /upgrade from release 0\.1\.0 failed and changed nothing.*payment_mismatched/,
    );
    expect(await state()).toEqual(before);
    await withoutNode((connection) => connection.script("drop index payment_mismatched"));
    await withNode(async (db) => expect(await dumpSchema(db)).toBe(SCHEMA));
  });

  it("is as before when the node is killed before the upgrade's commit, and is upgraded by the next one", async () => {
    await prepare((db) => loadFixture(db, "0.1.0"));
    const before = await state();
    const given = [database.data_dir, ...(database.database_url === null ? [] : [database.database_url])];
    const node = spawn(process.execPath, [join(ROOT, "test/upgrades/stopping-node.ts"), ...given], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = await once(node.stdout, "data");
    expect(String(said)).toBe("before the commit\n");
    node.kill("SIGKILL");
    await once(node, "exit");
    expect(await state()).toEqual(before);
    await withNode(async (db) => expect(await dumpSchema(db)).toBe(SCHEMA));
  });

  it("is rejected and unchanged without all of its migrations, with the remedy", async () => {
    await prepare(async (db) => {
      await clear(db);
      await applyMigrations(db, OLD.slice(0, 12));
    });
    const before = await state();
    await expect(database.open()).rejects.toThrow(
      /has 12 of the 15 migrations of release 0\.1\.0.*start the last version of 0\.1\.0 once/,
    );
    expect(await state()).toEqual(before);
  });

  it("is rejected and unchanged if it was made by other migrations of these names", async () => {
    await prepare(async (db) => {
      await loadFixture(db, "0.1.0");
      await db.query({ text: "update schema_migration set sha256 = 'other' where name = '0007_notices.sql'" });
    });
    const before = await state();
    await expect(database.open()).rejects.toThrow("0007_notices.sql was changed after it had been applied");
    expect(await state()).toEqual(before);
  });

  describe.runIf(inject("storage").kind === "postgres")("on a server", () => {
    it("is upgraded once by nodes that start together", async () => {
      await prepare((db) => loadFixture(db, "0.1.0"));
      const nodes = await Promise.all([1, 2, 3].map(() => database.open()));
      try {
        const [first] = nodes;
        expect(await dumpSchema(first as Db)).toBe(SCHEMA);
        expect(
          await (first as Db).query({
            text: "select count(distinct applied_at)::int as times from schema_migration where name like '1000%'",
          }),
        ).toEqual([{ times: 1 }]);
        expect((await audit(first as Db)).ok).toBe(true);
      } finally {
        await Promise.all(nodes.map((db) => db.close()));
      }
    });

    it("is as before when its connection is cut in the middle of the upgrade", async () => {
      await prepare((db) => loadFixture(db, "0.1.0"));
      const before = await state();
      const url = database.database_url ?? "";
      await withoutNode(async (connection) => {
        await connection.script("begin; lock table payment in access exclusive mode");
        const opening = database.open();
        opening.catch(() => {});
        const waiting = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
          and query like '%mismatch%' and pid <> pg_backend_pid()`;
        await expect.poll(() => runSql(url, waiting)).toHaveLength(1);
        await runSql(url, `select pg_terminate_backend(pid) from (${waiting}) waiting`);
        await expect(opening).rejects.toThrow(/failed and changed nothing/);
        await connection.script("rollback");
      });
      expect(await state()).toEqual(before);
      await withNode(async (db) => expect(await dumpSchema(db)).toBe(SCHEMA));
    });
  });
});

describe("a migration after the baseline", () => {
  const NEXT = "9999_of_the_test.sql";
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeFileSync(join(folder, NEXT), "alter table users add column note text; create table of_the_test (id integer);");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const migrated = () =>
    withoutNode(async (connection) => {
      await migrate({ connect: async () => connection }, folder);
      const { rows } = await connection.query<{ name: string }>({
        text: "select name from schema_migration order by applied_at desc, name desc limit 1",
      });
      await connection.query({ text: "select id from of_the_test" });
      return [rows[0]?.name, (await connection.query({ text: "select note from users" })).rows.length];
    });

  it.each(["0.1.0", "baseline"])("is applied to a filled database of %s, once", async (release) => {
    await prepare((db) => loadFixture(db, release));
    expect(await migrated()).toEqual([NEXT, 2]);
    expect(await migrated()).toEqual([NEXT, 2]);
  });

  it("is applied to a new database", async () => {
    await prepare(clear);
    expect(await migrated()).toEqual([NEXT, 0]);
  });

  it("leaves the database as it was when it fails", async () => {
    await prepare((db) => loadFixture(db, "baseline"));
    writeFileSync(join(folder, NEXT), "create table of_the_test (id integer); select 1 / 0;");
    await expect(migrated()).rejects.toThrow(`the migration ${NEXT} failed: division by zero`);
    await withNode(async (db) => expect(await dumpSchema(db)).toBe(SCHEMA));
  });

  it("never changes once it is applied, and neither does the baseline", async () => {
    await migrated();
    writeFileSync(join(folder, NEXT), "create table of_the_test (id bigint);");
    await expect(migrated()).rejects.toThrow(`${NEXT} was changed after it had been applied`);
    writeFileSync(join(folder, "1000_accounts.sql"), "create table users (id uuid primary key);");
    await expect(migrated()).rejects.toThrow("1000_accounts.sql was changed after it had been applied");
  });

  it("makes the database one that an older version rejects", async () => {
    await migrated();
    await expect(database.open()).rejects.toThrow(`${NEXT}, which this version does not know`);
  });
});
