import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { migrate } from "../../src/platform/db/migrate.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { createTestDatabase, insertAgent, type TestDatabase } from "../support/database.ts";
import { stateOf, withoutNode } from "../support/raw-database.ts";

// A later version has a second migration. It upgrades a database that this version has filled.

const NEXT = "9999_of_the_test.sql";
let folder: string;
let database: TestDatabase;
let user_id: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
  cpSync("migrations", folder, { recursive: true });
  write("alter table account add column note text; create table of_the_test (id integer)");
  database = await createTestDatabase();
  const db = await database.open();
  const ledger = createLedgerFixture(db);
  user_id = await ledger.account(1_000, 2_000);
  for (const cost of [10, 1_500, 0]) {
    const held = await ledger.hold(user_id, cost);
    if (held.status === "held") await ledger.settle(user_id, held.hold_id, cost);
  }
  await ledger.hold(user_id, 100);
  await insertAgent(db, { user_id, agent_id: user_id });
  await db.close();
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

it("an upgrade keeps every row and its values, applies the new migration once, and the ledger's audit is clean", async () => {
  expect(await auditOf()).toMatchObject({ ok: true, checked: { entries: 5, usage_events: 3 } });
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

it("an upgrade that fails leaves the database as it was, and this version starts on it", async () => {
  write("create table of_the_test (id integer); select 1 / 0");
  const before = await stateOf(database);
  await expect(upgrade()).rejects.toThrow(
    `the migrations failed and changed nothing: the migration ${NEXT} failed: division by zero`,
  );
  expect(await stateOf(database)).toEqual(before);
  expect(await auditOf()).toMatchObject({ ok: true });
});

it("after an upgrade, the version before does not start, changes nothing and names the migration", async () => {
  await upgrade();
  const before = await stateOf(database);
  await expect(database.open()).rejects.toThrow(
    /9999_of_the_test\.sql, which this version .* newer version.*Start that version/,
  );
  expect(await stateOf(database)).toEqual(before);
});
