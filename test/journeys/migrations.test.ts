import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Db, Statement } from "../../src/platform/db.ts";
import { createLog } from "../../src/platform/log.ts";
import { migrate } from "../../src/platform/migrate.ts";
import { openPostgres } from "../../src/platform/postgres.adapter.ts";
import type { SqlConnection } from "../../src/platform/sql-connection.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { freePort } from "../support/cell-router.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runSql, waitingForLocks } from "../support/postgres-server.ts";
import { startProcess } from "../support/process.ts";
import { newMasterKey } from "../support/vault.ts";
import { createFilledDatabase, hashOf, migrationsOf, recording, stateOf } from "../upgrades/fixture.ts";
import { withoutNode } from "../upgrades/raw-source.ts";

// The histories of migrations that a node accepts or rejects.

const FOLDER = join(import.meta.dirname, "../../migrations");
const SCHEMA = readFileSync(join(FOLDER, "../schema.sql"), "utf8");
const LATER_STEPS = readdirSync(join(FOLDER, "from-0.1.0"))
  .filter((name) => name.endsWith(".sql"))
  .sort()
  .map((name) => {
    const text = readFileSync(join(FOLDER, "from-0.1.0", name), "utf8");
    return { name, text, sha256: hashOf(text) };
  });

let filled: Record<string, TestDatabase>;
let database: TestDatabase;
beforeAll(async () => {
  filled = { "0.1.0": await createFilledDatabase("0.1.0"), baseline: await createFilledDatabase("baseline") };
});
afterAll(() => Promise.all(Object.values(filled).map((each) => each.drop())));
afterEach(() => database.drop());

const script = (text: string) => withoutNode(database, (connection) => connection.script(text));
const start = async () => (await database.open()).close();

describe("a database of release 0.1.0", () => {
  beforeEach(async () => {
    database = await createTestDatabase(filled["0.1.0"]);
  });

  it("has the baseline as its history after the upgrade, and is upgraded once", async () => {
    await start();
    const { history } = await stateOf(database);
    const names = migrationsOf("baseline").map(({ name }) => name);
    expect(history.slice(0, names.length)).toMatchObject(names.map((name) => ({ name })));
    await start();
    expect((await stateOf(database)).history).toEqual(history);
  });

  it.each([
    ["the first later step", LATER_STEPS.slice(0, 1)],
    ["all later steps", LATER_STEPS],
  ])("that a development version has given %s is upgraded too", async (_, steps) => {
    for (const step of steps) await script(`${step.text}; ${recording(step)}`);
    const before = await stateOf(database);
    await start();
    const after = await stateOf(database);
    expect(after.schema).toBe(SCHEMA);
    expect(after.rows.entry).toEqual(before.rows.entry);
    expect(after.rows.trial_backlog).toEqual(before.rows.trial_backlog);
    expect(after.rows.trial_backlog).toHaveLength(1);
  });

  it("is rejected and unchanged without all of its migrations, with the remedy", async () => {
    await script("delete from schema_migration where name > '0013'");
    const before = await stateOf(database);
    await expect(start()).rejects.toThrow(
      /has 12 of the 15 migrations of release 0\.1\.0.*start the last version of 0\.1\.0 once/,
    );
    expect(await stateOf(database)).toEqual(before);
  });

  it("is rejected and unchanged if it was made by other migrations of these names", async () => {
    await script("update schema_migration set sha256 = 'other' where name = '0007_notices.sql'");
    const before = await stateOf(database);
    await expect(start()).rejects.toThrow("0007_notices.sql was changed after it had been applied");
    expect(await stateOf(database)).toEqual(before);
  });

  it("is upgraded once by nodes that start at the same time", async () => {
    const nodes = await Promise.all([1, 2, 3].map(() => database.open()));
    await Promise.all(nodes.map((db) => db.close()));
    const { schema, history } = await stateOf(database);
    expect(schema).toBe(SCHEMA);
    const baseline = history.filter(({ name }) => name.startsWith("1000_"));
    expect(new Set(baseline.map(({ applied_at }) => applied_at)).size).toBe(1);
  });

  it("is unchanged if its connection is cut during the upgrade", async () => {
    const before = await stateOf(database);
    const url = database.database_url ?? "";
    await withoutNode(database, async (connection) => {
      await connection.script("begin; lock table payment in access exclusive mode");
      const starting = start();
      starting.catch(() => {});
      const waiting = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and query like '%mismatch%' and pid <> pg_backend_pid()`;
      await expect.poll(() => runSql(url, waiting)).toHaveLength(1);
      await runSql(url, `select pg_terminate_backend(pid) from (${waiting}) waiting`);
      await expect(starting).rejects.toThrow("failed and changed nothing");
      await connection.script("rollback");
    });
    expect(await stateOf(database)).toEqual(before);
    await start();
    expect((await stateOf(database)).schema).toBe(SCHEMA);
  });
});

describe("a migration after the baseline", () => {
  const NEXT = "9999_of_the_test.sql";
  let folder: string;
  const write = (text: string, name = NEXT) => writeFileSync(join(folder, name), text);
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    write("alter table users add column note text; create table of_the_test (id integer)");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const startNext = () => withoutNode(database, (connection) => migrate({ connect: async () => connection }, folder));

  it.each(["0.1.0", "baseline"])("is applied to a filled database of %s, once", async (release) => {
    database = await createTestDatabase(filled[release]);
    await startNext();
    const { rows, history } = await stateOf(database);
    expect([rows.of_the_test, rows.users?.length, rows.users?.[0]?.note]).toEqual([[], 2, null]);
    expect(history.at(-1)).toMatchObject({ name: NEXT });
    await startNext();
    expect((await stateOf(database)).history).toEqual(history);
  });

  it("is applied to a new database", async () => {
    database = await createTestDatabase();
    await script("drop schema public cascade; create schema public");
    await startNext();
    expect((await stateOf(database)).rows).toMatchObject({ of_the_test: [], users: [] });
  });

  const constraint = "alter table usage_event add constraint of_the_test check (cost < 1000000000) not valid";

  it("has the rows of a new constraint checked after the commit, so that other nodes can write meanwhile", async () => {
    database = await createTestDatabase(filled.baseline);
    write(constraint);
    const said: string[] = [];
    await withoutNode(database, async (connection) => {
      const recording = {
        ...connection,
        query: <Row>(statement: Statement) => {
          said.push(statement.text);
          return connection.query<Row>(statement);
        },
        script: (text: string) => {
          said.push(text);
          return connection.script(text);
        },
      };
      await migrate({ connect: async () => recording }, folder);
    });
    const at = (text: string) => said.findIndex((each) => each.includes(text));
    expect(at("validate constraint of_the_test")).toBeGreaterThan(at("commit"));
    expect(said.slice(0, at("commit")).join()).not.toContain("validate constraint");
    expect((await stateOf(database)).schema).not.toContain("NOT VALID");
  });

  it("whose check of the rows was interrupted has them checked at the next start", async () => {
    database = await createTestDatabase(filled.baseline);
    write(constraint);
    const dying = (connection: SqlConnection) => ({
      ...connection,
      script: async (text: string) => {
        if (text.includes("validate constraint")) throw new Error("the connection is lost");
        await connection.script(text);
      },
    });
    const first = withoutNode(database, (connection) => migrate({ connect: async () => dying(connection) }, folder));
    await expect(first).rejects.toThrow("the connection is lost");
    expect((await stateOf(database)).schema).toContain("NOT VALID");
    await startNext();
    expect((await stateOf(database)).schema).not.toContain("NOT VALID");
  });

  it("whose constraint is violated by old rows names the table and the constraint", async () => {
    database = await createTestDatabase(filled.baseline);
    write(constraint.replace("cost < 1000000000", "cost < 0"));
    await expect(startNext()).rejects.toThrow(/rows of usage_event .* constraint of_the_test: .*violated/);
  });

  it("leaves the database unchanged if it fails", async () => {
    database = await createTestDatabase();
    write("create table of_the_test (id integer); select 1 / 0");
    const before = await stateOf(database);
    await expect(startNext()).rejects.toThrow(`the migration ${NEXT} failed: division by zero`);
    expect(await stateOf(database)).toEqual(before);
  });

  it("never changes once it is applied, and neither does the baseline", async () => {
    database = await createTestDatabase();
    await startNext();
    write("create table of_the_test (id bigint)");
    await expect(startNext()).rejects.toThrow(`${NEXT} was changed after it had been applied`);
    write("create table users (id uuid primary key)", "1000_accounts.sql");
    await expect(startNext()).rejects.toThrow("1000_accounts.sql was changed after it had been applied");
  });

  it("makes an older version reject the database", async () => {
    database = await createTestDatabase();
    await startNext();
    const before = await stateOf(database);
    await expect(start()).rejects.toThrow(
      /9999_of_the_test\.sql, which this version .* newer version.*Start that version/,
    );
    expect(await stateOf(database)).toEqual(before);
  });

  it("is applied also if another branch's later one was applied before it", async () => {
    database = await createTestDatabase();
    await startNext();
    const EARLIER = "9998_of_the_test.sql";
    write("create table before_it (id integer)", EARLIER);
    await startNext();
    const { history, rows } = await stateOf(database);
    expect(history.slice(-2)).toMatchObject([{ name: EARLIER }, { name: NEXT }]);
    expect(rows).toMatchObject({ before_it: [], of_the_test: [] });
  });

  it("makes other nodes wait while the migrating node's transaction is open, and they say so", async () => {
    database = await createTestDatabase();
    const waits: unknown[] = [];
    const log = Object.assign(createLog("silent"), { info: (_: object, text: string) => void waits.push(text) });
    await withoutNode(database, async (migrating) => {
      await migrating.script("begin; select pg_advisory_xact_lock(7470625)");
      const url = database.database_url ?? "";
      const opening = openPostgres({ url, log });
      await expect.poll(() => waits).toEqual(["waiting: another node migrates the database"]);
      // No statement of the waiting node is open, so no timeout of a statement ends its wait.
      expect(await waitingForLocks(url)).toEqual([]);
      await migrating.script("commit");
      await (await opening).close();
    });
  });
});

describe("a start that takes long", () => {
  it("logs the migration and the index that it works on, and their ends", async () => {
    database = await createTestDatabase();
    await start();
    const folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeFileSync(join(folder, "9998_of_the_test.sql"), "select pg_sleep(1.2)");
    writeFileSync(join(folder, "9999_of_the_test.sql"), "select 1");
    const index = "create index concurrently if not exists of_the_test on payment (created_at)";
    writeFileSync(join(folder, "indexes/of_the_test.sql"), index);
    const lines: unknown[] = [];
    const info = (about: object, text: string) => void lines.push([text, about]);
    const log = Object.assign(createLog("silent"), { info });
    await withoutNode(database, async (writing) => {
      // A build waits for a transaction that has written.
      await writing.script("begin; lock table payment in row exclusive mode");
      const migrating = withoutNode(database, (connection) =>
        migrate({ connect: async () => connection }, folder, log),
      );
      await expect.poll(() => lines.length).toBe(3);
      await writing.script("commit");
      await migrating;
    });
    rmSync(folder, { recursive: true });
    const migration = { migration: "9998_of_the_test.sql", nth: 1, of: 2, ms: expect.any(Number) };
    expect(lines).toEqual([
      ["migrating the database: at work", migration],
      ["migrating the database: done", migration],
      ["building an index: at work", { index: "of_the_test", ms: expect.any(Number) }],
      ["building an index: done", { index: "of_the_test", ms: expect.any(Number) }],
    ]);
  });

  it("lives and is not ready until it is complete, and then serves on the same port", async () => {
    database = await createTestDatabase();
    const port = await freePort();
    const env = {
      PORT: String(port),
      DATA_DIR: database.data_dir,
      PURSER_KEK: newMasterKey("k1"),
      DATABASE_URL: database.database_url ?? "",
    };
    const url = `http://127.0.0.1:${port}`;
    const read = async (path: string) => {
      const answer = await fetch(url + path).catch(() => null);
      return answer === null ? null : [answer.status, await answer.json()];
    };
    const service = await withoutNode(database, async (migrating) => {
      await migrating.script("begin; select pg_advisory_xact_lock(7470625)");
      const starting = startProcess(env);
      await expect
        .poll(() => read("/readyz"), { interval: 20 })
        .toEqual([503, { status: "not ready", reason: "starting" }]);
      expect(await read("/livez")).toEqual([200, { status: "ok" }]);
      expect(await read("/api/v1/models")).toMatchObject([503, { error: { code: "overloaded" } }]);
      expect(starting.stdout()).toBe("");
      await migrating.script("commit");
      return starting;
    });
    expect(await service.listening).toBe(url);
    expect(await read("/readyz")).toEqual([200, { status: "ready" }]);
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
  });
});

describe("an index of migrations/indexes", () => {
  const isValid = async () => {
    const state = "select indisvalid as is_valid from pg_index where indexrelid = to_regclass('payment_unpaid')";
    return runSql(database.database_url ?? "", state);
  };
  beforeEach(async () => {
    database = await createTestDatabase();
    await script("drop index payment_unpaid");
  });

  it("is built while other nodes write to its table, also if a transaction that has written is still open", async () => {
    const url = database.database_url ?? "";
    const write = "lock table payment in row exclusive mode";
    await withoutNode(database, async (writer) => {
      await writer.script(`begin; ${write}`);
      const starting = start();
      await expect
        .poll(async () => [await isValid(), (await waitingForLocks(url)).length])
        .toEqual([[{ is_valid: false }], 1]);
      await script(`begin; ${write} nowait; commit`);
      await writer.script("commit");
      await starting;
    });
    expect(await isValid()).toEqual([{ is_valid: true }]);
  });

  it("is built again at the next start if its node died meanwhile", async () => {
    await start();
    await script("update pg_index set indisvalid = false where indexrelid = 'payment_unpaid'::regclass");
    await start();
    expect(await isValid()).toEqual([{ is_valid: true }]);
  });

  it("is built once by nodes that start at the same moment", async () => {
    const nodes = await Promise.all([1, 2, 3].map(() => database.open()));
    await Promise.all(nodes.map((db) => db.close()));
    expect(await isValid()).toEqual([{ is_valid: true }]);
  });

  it("does not keep a node from its start if it cannot be built, and the log names it and the reason", async () => {
    const folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeFileSync(
      join(folder, "indexes/of_the_test.sql"),
      "create index concurrently of_the_test on payment ((1 / 0))",
    );
    const warned: unknown[] = [];
    const log = Object.assign(createLog("silent"), { warn: (about: object) => void warned.push(about) });
    await withoutNode(database, (connection) => migrate({ connect: async () => connection }, folder, log));
    expect(warned).toMatchObject([{ index: "of_the_test", error: { message: "division by zero" } }]);
    rmSync(folder, { recursive: true, force: true });
  });
});

describe("a batch of the ledger during a migration that adds a column", () => {
  const SQL = join(FOLDER, "../src/ledger/sql");
  const LEDGER_LOCK = readFileSync(join(SQL, "ledger_lock.sql"), "utf8");
  /** The batch fills each column of a hold. */
  const BATCH = readFileSync(join(SQL, "ledger_apply_batch.sql"), "utf8").replace(")::hold;", ", null)::hold;");
  let folder: string;
  let db: Db;
  let migrating: Promise<void>;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeFileSync(join(folder, "9999_of_the_test.sql"), `alter table hold add column of_the_test text; ${BATCH}`);
    database = await createTestDatabase();
    db = await database.open();
  });
  afterEach(async () => {
    await db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const startNext = () => {
    migrating = withoutNode(database, (connection) => migrate({ connect: async () => connection }, folder));
  };
  const untilWaiting = (sessions: number) =>
    expect.poll(() => waitingForLocks(database.database_url ?? "")).toHaveLength(sessions);

  it("that begins meanwhile is done on the new table, because its node repeats it", async () => {
    const ledger = createLedgerFixture(db);
    const user_id = await ledger.account(1_000);
    await withoutNode(database, async (other) => {
      await other.script("begin; select from hold");
      startNext();
      await untilWaiting(1);
      const held = ledger.hold(user_id, 10);
      await untilWaiting(2);
      await other.script("commit");
      await migrating;
      expect(await held).toMatchObject({ status: "held", held_tokens: 10 });
    });
  });

  it.each([
    ["that a version without the ledger's lock began before it", ""],
    ["the same, if DATABASE_URL names its application,", "?application_name=node-1"],
  ])("%s is done on the table of before", async (_, parameters) => {
    await db.close();
    db = await openPostgres({ url: `${database.database_url}${parameters}`, log: createLog("silent") });
    const without_lock = LEDGER_LOCK.replace(/ {2}if not pg_try_advisory[\s\S]*?end if;\n/, "");
    await script(`${without_lock}; update sql_definition set sha256 = 'before' where name = 'ledger_lock'`);
    const ledger = createLedgerFixture(db);
    const user_id = await ledger.account(1_000);
    await withoutNode(database, async (other) => {
      await other.script("begin; select from account for update");
      const held = ledger.hold(user_id, 10);
      await untilWaiting(1);
      startNext();
      const locks = "select from pg_proc where proname = 'ledger_lock' and prosrc like '%pg_try_advisory%'";
      await expect.poll(() => runSql(database.database_url ?? "", locks)).toHaveLength(1);
      await other.script("commit");
      await migrating;
      expect(await held).toMatchObject({ status: "held", held_tokens: 10 });
    });
    const { rows, history } = await stateOf(database);
    expect(rows.hold).toMatchObject([{ of_the_test: null }]);
    expect(history.at(-1)).toMatchObject({ name: "9999_of_the_test.sql" });
  });
});

it("a database that a development version has migrated with the former text of a migration starts", async () => {
  database = await createTestDatabase(filled.baseline);
  await start();
  const { schema } = await stateOf(database);
  await script(
    `update schema_migration set sha256 = '86ff9a7739908ceaf43fee9ae93ca8fa943ffcc83387d52145728b48f508c02b'
      where name = '1001_price_classes.sql';
    update schema_migration set sha256 = 'b1e6077a50dd0b2fdedcc147b683b8c6a413faa24ebd2b1f448a4f44d7392fd3'
      where name = '1004_cancelled_runs.sql'`,
  );
  await start();
  expect((await stateOf(database)).schema).toBe(schema);
});

it.each(["1001_price_classes.sql", "1004_cancelled_runs.sql"])(
  "%s checks no row of a large table under its exclusive lock",
  async (name) => {
    database = await createTestDatabase();
    const text = readFileSync(join(FOLDER, name), "utf8").replaceAll(/^--.*$/gm, "");
    expect(text.match(/ not valid\b/g)).toHaveLength(text.match(/\bcheck \(/g)?.length ?? 0);
  },
);

it("a database that a development version has migrated under the former name of a migration starts", async () => {
  database = await createTestDatabase();
  await script("delete from schema_migration where name = '1022_unpaid_orders.sql'");
  await script("update schema_migration set name = '1022_notice_mails.sql' where name = '1023_notice_mails.sql'");
  await start();
  await start();
});
