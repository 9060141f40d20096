import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveClosedMonths } from "../../src/account/ledger/archive.service.ts";
import { type ArchiveMonth, moveRows, planMonth } from "../../src/account/ledger/archive.store.ts";
import { verifyArchive } from "../../src/account/ledger/archive-file.ts";
import { readEntries } from "../../src/account/ledger/entry.store.ts";
import { createVerifier } from "../../src/account/ledger/verify-export.ts";
import type { Db } from "../../src/platform/db/db.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";

let database: TestDatabase;
let db: Db;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  folder = mkdtempSync(join(tmpdir(), "purser-archive-"));
});
afterAll(async () => {
  await db.close();
  await database.drop();
  rmSync(folder, { recursive: true });
});

const archive = (on: Db, until: Instant) => archiveClosedMonths({ db: on, folder, report: () => {} }, until);

describe("an archive of closed months", () => {
  test("moves only months whose file is written, also while another archive runs", async () => {
    const fixture = createLedgerFixture(db, "2024-09-10T00:00:00.000Z");
    const user_ids = [await fixture.account(1_000), await fixture.account(1_000)];
    fixture.clock.put("2024-10-10T00:00:00.000Z");
    for (const user_id of user_ids) await fixture.grant(user_id, 5);
    fixture.clock.put("2024-11-10T00:00:00.000Z");
    // This call has begun to move September; only then are the rows of October planned.
    const stale = { month: "2024-09-01", before: "2024-10-01T00:00:00.000Z" as Instant };
    await archive(db, stale.before);
    expect(await planMonth(db, "2024-11-01T00:00:00.000Z")).toBe(true);
    const count = async () => (await db.query({ text: "select from entry" })).length;
    const kept = await count();
    const [planned] = await db.query<ArchiveMonth>({ text: "select * from archive_month where phase = 'planned'" });
    if (planned === undefined) throw new Error("no month is planned");
    await moveRows(db, { ...planned, ...stale }, () => {});
    await expect(moveRows(db, planned, () => {})).rejects.toThrow("another purser archive");
    expect(await count()).toBe(kept);
    const results = await Promise.allSettled([archive(db, planned.before), archive(db, planned.before)]);
    const rejected = results.filter(({ status }) => status === "rejected");
    if (db.kind === "postgres") expect(rejected).toMatchObject([{ reason: { name: "OtherArchiveError" } }]);
    await archive(db, planned.before);
    const verifier = createVerifier();
    const manifests = readdirSync(folder).filter((file) => file.endsWith(".jsonl"));
    for (const manifest of manifests.sort()) await verifyArchive(join(folder, manifest), verifier);
    expect(verifier.result()).toMatchObject({ violations: [], begin_later: 0, accounts: 2 });
    expect((await fixture.ledger.audit()).violations).toEqual([]);
  });

  test("during an export stops it, because entries between two of its pages are gone", async () => {
    const fixture = createLedgerFixture(db, "2024-11-12T00:00:00.000Z");
    const user_id = await fixture.account(1_000);
    for (let n = 0; n < 5; n += 1) await fixture.grant(user_id, 5);
    const whole = readEntries(db, user_id, {}, 2);
    const exports = [readEntries(db, user_id, {}, 2), readEntries(db, user_id, {}, 6)];
    for (const pages of exports) await pages.next();
    expect((await Array.fromAsync(whole)).flat()).toHaveLength(6);
    fixture.clock.put("2024-12-10T00:00:00.000Z");
    await archive(db, "2024-12-01T00:00:00.000Z");
    const [cut, complete] = exports;
    await expect(cut?.next()).rejects.toThrow("repeat the export");
    expect(await complete?.next()).toMatchObject({ done: true });
  });

  test("makes the charges of lost calls final before it plans, and holds no lock while it plans", async () => {
    const fixture = createLedgerFixture(db, "2025-01-10T00:00:00.000Z");
    const user_id = await fixture.account(1_000);
    const { hold_id } = (await fixture.hold(user_id, 100)) as { hold_id: string };
    await fixture.ledger.progress([{ user_id, hold_id, charge: settleOf(user_id, hold_id, 10) }]);
    await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [hold_id] });
    await fixture.ledger.sweep();
    fixture.clock.put("2025-03-10T00:00:00.000Z");
    const before: Instant = "2025-02-01T00:00:00.000Z";
    const sealed: string[] = [];
    // Between the seal and the plan, no lock is held.
    const watching: Db = {
      ...db,
      query: async <Row>(statement: Parameters<Db["query"]>[0]) => {
        if (statement.text.startsWith("-- Plans")) sealed.push((await fixture.settle(user_id, hold_id, 90)).status);
        return db.query<Row>(statement);
      },
    };
    const status = await fixture.ledger.accountStatus(user_id);
    expect(await planMonth(watching, before)).toBe(true);
    expect(sealed).toEqual(["settled"]);
    expect(await fixture.ledger.accountStatus(user_id)).toEqual(status);
    await archive(db, before);
    expect((await fixture.ledger.audit()).violations).toEqual([]);
  });
});
