import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openArchive } from "../../src/operator/backup/archive.ts";
import { copyRows, prepareTarget } from "../../src/operator/backup/copy.ts";
import { migrate } from "../../src/platform/db/migrate.ts";
import { openDb } from "../../src/platform/db/open-db.ts";
import { applyDefinitions, type SqlDefinition } from "../../src/platform/db/sql-functions.ts";
import { endTransfer } from "../../src/platform/db/transfer.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { openBrowser } from "../support/browser.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { stateOf, withoutNode } from "../support/raw-database.ts";
import {
  type Known,
  PASSWORD,
  RELEASES,
  type Running,
  request,
  SECRET,
  SERVICE,
  serveReleaseData,
} from "../support/release-data.ts";
import { type Site, startSite } from "../support/sites.ts";
import { deliver } from "../support/triggers.ts";
import { completion, fetching, startUpstream, type Upstream } from "../support/upstream.ts";

// The databases of all releases since 1.0, which `npm run release:database` made: this version upgrades them when it
// starts, and goes on with what they have.

/** A database as that release left it, with its functions. */
async function databaseOf(release: string): Promise<TestDatabase> {
  const database = await createTestDatabase();
  const { database_url, data_dir } = database;
  await withoutNode(database, ({ script }) => script("drop schema public cascade; create schema public"));
  const archive = await openArchive(join(RELEASES, release, "backup.gz"));
  const source = { ...archive.header, ...archive, name: release };
  const db = await openDb({ database_url, data_dir, log: createLog("silent"), prepare: prepareTarget(source) });
  await copyRows(db, source, () => {});
  await endTransfer(db.query);
  await db.close();
  const packed = readFileSync(join(RELEASES, release, "functions.json.gz"));
  const definitions: SqlDefinition[] = JSON.parse(gunzipSync(packed).toString());
  await withoutNode(database, async (connection) => {
    await connection.script("begin");
    await applyDefinitions(connection, { definitions, release });
    await connection.script("commit");
  });
  return database;
}

describe.each(readdirSync(RELEASES))("a database of %s", (release) => {
  const known: Known = JSON.parse(readFileSync(join(RELEASES, release, "known.json"), "utf8"));
  const { ada, bob, eve, operator_key, waiting, trigger } = known;
  let database: TestDatabase;
  let upstream: Upstream;
  let site: Site;
  let service: Running;
  const ask = (key: string, method: string, path: string, body?: object) =>
    request(service.url, key, method, path, body);
  const runOf = async (key: string, run_id: string) => (await ask(key, "GET", `runs/${run_id}`)).body;

  beforeAll(async () => {
    [database, upstream, site] = await Promise.all([
      databaseOf(release),
      startUpstream(),
      startSite({ "/": { body: "<p>The page.</p>" } }),
    ]);
    const { data_dir, database_url } = database;
    service = await serveReleaseData(upstream, {
      DATA_DIR: data_dir,
      PURSER_EGRESS_ALLOW: new URL(site.url).host,
      ...(database_url !== null && { DATABASE_URL: database_url }),
    });
  });
  afterAll(async () => {
    await service.stop();
    await Promise.all([database.drop(), upstream.close(), site.close()]);
  });

  it("answers each request of its users and of the operator as before, with at most further fields", async () => {
    const keys = { ada: ada.key, bob: bob.key, operator: operator_key };
    for (const { who, path, body } of known.answers) {
      const { status, body: now } = await ask(keys[who], "GET", path);
      const at_former_address = JSON.parse(JSON.stringify(now).replaceAll(service.url, SERVICE));
      expect({ path, status, body: at_former_address }).toMatchObject({ path, status: 200, body });
    }
  });

  it("gives its conversations titles, by which they are found", async () => {
    const found = async () => (await ask(ada.key, "GET", "threads?q=harbour")).body.threads;
    await expect.poll(found).toMatchObject([{ id: "thread-1", title: "Remember the harbour" }]);
  });

  it("goes on with the run that was in flight", async () => {
    await expect.poll(async () => (await runOf(eve.key, eve.run_id)).status).toBe("succeeded");
  });

  it("lets a person sign in with her password", async () => {
    const browser = openBrowser(service.url);
    const { status } = await browser.post("/auth/sign-in/email", { email: ada.email, password: PASSWORD });
    expect([status, (await browser.get("/users/me")).body.id]).toEqual([200, ada.id]);
  });

  it("sends a stored secret, and charges the run", async () => {
    const auth = [{ secret: "CRM_TOKEN", hosts: [new URL(site.url).host], inject: { type: "bearer" } }];
    const tools_config = { web_fetch: { enabled: true, auth } };
    const agent = { name: "New", model_id: "lab/plain", run_prompt: "Read", tools_config };
    const { id } = (await ask(ada.key, "POST", "agents", agent)).body;
    upstream.answer(fetching(site.url), completion("Read."));
    const run = await ask(ada.key, "POST", `agents/${id}/runs`);
    expect(run.body).toMatchObject({ status: "succeeded", output: "Read.", has_errors: false });
    expect(site.requests.at(-1)?.headers.authorization).toBe(`Bearer ${SECRET}`);
    expect(run.body.usage.cost_tokens).toBeGreaterThan(0);
  });

  it("takes the decision that a run waits for, and a delivery that starts a run", async () => {
    const { required_actions } = await runOf(ada.key, waiting.run_id);
    const action = `agents/${waiting.agent_id}/runs/${waiting.run_id}/actions/${required_actions[0].id}`;
    expect((await ask(ada.key, "POST", action, { decision: "reject", reason: "not now" })).status).toBe(200);
    await expect.poll(async () => (await runOf(ada.key, waiting.run_id)).status).toBe("succeeded");
    const delivered = await deliver({ url: `${service.url}/hooks/${trigger.id}`, secret: trigger.secret }, {});
    expect(delivered.status).toBe(202);
    await expect.poll(async () => (await runOf(ada.key, delivered.body.run_id)).status).toBe("succeeded");
  });

  it("has a ledger in order", async () => {
    expect((await ask(operator_key, "GET", "admin/audit")).body).toMatchObject({ ok: true, violations: [] });
  });
});

describe("the upgrade to a later version with a further migration", () => {
  const NEXT = "9999_of_the_test.sql";
  let filled: TestDatabase;
  let folder: string;
  let database: TestDatabase;
  beforeAll(async () => {
    filled = await databaseOf(readdirSync(RELEASES).at(-1) ?? "");
    await (await filled.open()).close();
  });
  afterAll(() => filled.drop());
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
    cpSync("migrations", folder, { recursive: true });
    write("alter table account add column note text; create table of_the_test (id integer)");
    database = await createTestDatabase(filled);
  });
  afterEach(async () => {
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  const write = (text: string) => writeFileSync(join(folder, NEXT), text);
  const upgrade = () => withoutNode(database, (connection) => migrate({ connect: async () => connection }, folder));
  const auditOf = async () => {
    const db = await database.open();
    return createLedgerFixture(db)
      .ledger.audit()
      .finally(() => db.close());
  };

  it("keeps every row and its values, applies the new migration once, and the ledger's audit is clean", async () => {
    const before = await stateOf(database);
    await upgrade();
    const after = await stateOf(database);
    expect(after.rows).toEqual({
      ...before.rows,
      account: before.rows.account?.map((row) => ({ ...row, note: null })),
      of_the_test: [],
    });
    expect(after.history).toEqual([...before.history, expect.objectContaining({ name: NEXT })]);
    await upgrade();
    expect((await stateOf(database)).history).toEqual(after.history);
    // The audit is this version's, which rejects the new migration.
    await withoutNode(database, ({ script }) => script(`delete from schema_migration where name = '${NEXT}'`));
    expect(await auditOf()).toMatchObject({ ok: true, violations: [] });
  });

  it("leaves the database as it was if it fails, and this version starts on it", async () => {
    write("create table of_the_test (id integer); select 1 / 0");
    const before = await stateOf(database);
    await expect(upgrade()).rejects.toThrow(
      `the migrations failed and changed nothing: the migration ${NEXT} failed: division by zero`,
    );
    expect(await stateOf(database)).toEqual(before);
    expect(await auditOf()).toMatchObject({ ok: true });
  });

  it("keeps the version before from starting, which changes nothing and names the migration", async () => {
    await upgrade();
    const before = await stateOf(database);
    await expect(database.open()).rejects.toThrow(
      /9999_of_the_test\.sql, which this version .* newer version.*Start that version/,
    );
    expect(await stateOf(database)).toEqual(before);
  });
});
