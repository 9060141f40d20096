import { createWriteStream, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { v7 } from "uuid";
import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveClosedMonths } from "../../src/account/ledger/archive.service.ts";
import { verifyArchive } from "../../src/account/ledger/archive-file.ts";
import { createVerifier } from "../../src/account/ledger/verify-export.ts";
import { openArchive, writeArchive } from "../../src/operator/backup/archive.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runPurser } from "../support/process.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";

// JSON may contain the line separators U+2028 and U+2029 unescaped, and some callers write them. Files of JSON lines keep them.

const LABEL = "first\u2028second\u2029third";

let database: TestDatabase;
let db: Db;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  folder = mkdtempSync(join(tmpdir(), "purser-lines-"));
  const fixture = createLedgerFixture(db, "2024-03-10T00:00:00.000Z");
  const user_id = await fixture.account(1_000);
  const hold_id = v7({ msecs: Date.parse(fixture.clock.now()) });
  await fixture.hold(user_id, 100, { hold_id });
  await fixture.ledger.settle(settleOf(user_id, hold_id, 10, { labels: { user: LABEL } }));
});
afterAll(async () => {
  await db.close();
  await database.drop();
  rmSync(folder, { recursive: true });
});

test("a backup with line separators in a text is read back with every row", async () => {
  const path = join(folder, "backup.gz");
  await writeArchive(db, "2024-03-10T00:00:00.000Z", createWriteStream(path));
  const { digests, rows } = await openArchive(path);
  const events: unknown[] = [];
  for await (const { table, lines } of rows({})) if (table.name === "usage_event") events.push(...lines);
  expect(digests.usage_event?.rows).toBe(1);
  expect(events).toEqual([expect.stringContaining(LABEL)]);
});

test("a month with line separators in a usage label is archived, and its files pass the audit", async () => {
  await archiveClosedMonths({ db, folder, report: () => {} }, "2024-05-01T00:00:00.000Z");
  expect(await db.query({ text: "select hold_id from usage_event" })).toEqual([]);
  const verifier = createVerifier();
  const manifests = readdirSync(folder).filter((name) => name.startsWith("archive-"));
  for (const name of manifests.sort()) await verifyArchive(join(folder, name), verifier);
  expect(verifier.result()).toMatchObject({ accounts: 1, violations: [] });
});

test("a backup into a folder that does not exist ends with exit 1, says so, and is recorded as failed", async () => {
  const file = join(folder, "none", "backup.gz");
  const { database_url, data_dir } = database;
  const KEK = { PURSER_KEK: `k1:${Buffer.alloc(32).toString("base64")}` };
  await db.close();
  const ended = await runPurser(["backup", file], {
    DATA_DIR: data_dir,
    ...KEK,
    ...(database_url === null ? {} : { DATABASE_URL: database_url }),
  });
  db = await database.open();
  expect(ended).toMatchObject({
    code: 1,
    stderr: `${file}.partial cannot be written (ENOENT): name a file in a folder that exists and that you may write to\n`,
  });
  const upkeep = await db.query({ text: "select kind, problem, succeeded_at from upkeep" });
  expect(upkeep).toEqual([{ kind: "backup", problem: expect.stringContaining("ENOENT"), succeeded_at: null }]);
});
