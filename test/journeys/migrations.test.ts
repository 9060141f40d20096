import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Db, Statement } from "../../src/platform/db/db.ts";
import { migrate } from "../../src/platform/db/migrate.ts";
import { openPostgres } from "../../src/platform/db/postgres.adapter.ts";
import type { SqlConnection } from "../../src/platform/db/sql-connection.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { freePort } from "../support/cell-router.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runSql, waitingForLocks } from "../support/postgres-server.ts";
import { startProcess } from "../support/process.ts";
import { stateOf, withoutNode } from "../support/raw-database.ts";
import { newMasterKey } from "../support/vault.ts";

// How nodes of PostgreSQL migrate their database: one of them, while others wait or serve.

const FOLDER = join(import.meta.dirname, "../../migrations");

let database: TestDatabase;
afterEach(() => database.drop());

const script = (text: string) => withoutNode(database, (connection) => connection.script(text));
const start = async () => (await database.open()).close();

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

  const constraint = "alter table users add constraint of_the_test check (length(email) < 9) not valid";

  it("has the rows of a new constraint checked after the commit, so that other nodes can write meanwhile", async () => {
    database = await createTestDatabase();
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
    database = await createTestDatabase();
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
    database = await createTestDatabase();
    await script("insert into users (id, email, created_at) values (gen_random_uuid(), 'ada@example.org', now())");
    write(constraint);
    await expect(startNext()).rejects.toThrow(/rows of users .* constraint of_the_test: .*violated/);
  });

  it("never changes once it is applied, and neither does the baseline", async () => {
    database = await createTestDatabase();
    await startNext();
    write("create table of_the_test (id bigint)");
    await expect(startNext()).rejects.toThrow(`${NEXT} was changed after it had been applied`);
    write("create table users (id uuid primary key)", "1000_accounts.sql");
    await expect(startNext()).rejects.toThrow("1000_accounts.sql was changed after it had been applied");
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

/** An index of a large table, as a later version adds it. */
function writeIndex(folder: string, on = "payment (created_at)"): void {
  mkdirSync(join(folder, "indexes"), { recursive: true });
  writeFileSync(
    join(folder, "indexes/of_the_test.sql"),
    `create index concurrently if not exists of_the_test on ${on}`,
  );
}

describe("a start that takes long", () => {
  it("logs the migration and the index that it works on, and their ends", async () => {
    database = await createTestDatabase();
    await start();
    const folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeFileSync(join(folder, "9998_of_the_test.sql"), "select pg_sleep(1.2)");
    writeFileSync(join(folder, "9999_of_the_test.sql"), "select 1");
    writeIndex(folder);
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
  let folder: string;
  const isValid = async () => {
    const state = "select indisvalid as is_valid from pg_index where indexrelid = to_regclass('of_the_test')";
    return runSql(database.database_url ?? "", state);
  };
  const startNext = (log = createLog("silent")) =>
    withoutNode(database, (connection) => migrate({ connect: async () => connection }, folder, log));
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync(FOLDER, folder, { recursive: true });
    writeIndex(folder);
    database = await createTestDatabase();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is built while other nodes write to its table, also if a transaction that has written is still open", async () => {
    const url = database.database_url ?? "";
    const write = "lock table payment in row exclusive mode";
    await withoutNode(database, async (writer) => {
      await writer.script(`begin; ${write}`);
      const starting = startNext();
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
    await startNext();
    await script("update pg_index set indisvalid = false where indexrelid = 'of_the_test'::regclass");
    await startNext();
    expect(await isValid()).toEqual([{ is_valid: true }]);
  });

  it("is built once by nodes that start at the same moment", async () => {
    await Promise.all([1, 2, 3].map(() => startNext()));
    expect(await isValid()).toEqual([{ is_valid: true }]);
  });

  it("does not keep a node from its start if it cannot be built, and the log names it and the reason", async () => {
    rmSync(join(folder, "indexes"), { recursive: true });
    writeIndex(folder, "payment ((1 / 0))");
    const warned: unknown[] = [];
    await startNext(Object.assign(createLog("silent"), { warn: (about: object) => void warned.push(about) }));
    expect(warned).toMatchObject([{ index: "of_the_test", error: { message: "division by zero" } }]);
  });
});

describe("a batch of the ledger during a migration that adds a column", () => {
  /** The batch fills each column of a hold. */
  const BATCH = readFileSync(join(FOLDER, "../src/account/ledger/sql/ledger_apply_batch.sql"), "utf8").replace(
    ")::hold;",
    ", null)::hold;",
  );
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
});
