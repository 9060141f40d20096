import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { entriesHead, entryLines, readExport } from "../../src/ledger/export-file.ts";
import { createLedger } from "../../src/ledger/ledger.service.ts";
import type { Ledger } from "../../src/ledger/ledger.types.ts";
import { verifyExport } from "../../src/ledger/verify-export.ts";
import type { Db } from "../../src/platform/db.ts";
import { createManualClock, settleOf } from "../properties/ledger-fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/**
 * Upgrade of a ledger that was filled before prices had classes. The fixture has the rows of the ledger's tables as the
 * previous release wrote them: charges with cached input, a free one, overage, an absorbed cost, a claw-back, a charge
 * from progress, a call in flight and one without progress.
 */
const FIXTURE = JSON.parse(readFileSync("test/fixtures/ledger-before-price-classes.json", "utf8"));
const FIRST_WITH_CLASSES = "1001";

let database: TestDatabase;
let db: Db;
let ledger: Ledger;

/** The schema of the previous release with its rows and its history of migrations. */
function previousReleaseScript(): string {
  const names = readdirSync("migrations").filter((name) => /^\d{4}_\w+\.sql$/.test(name) && name < FIRST_WITH_CLASSES);
  const migrations = names.sort().map((name) => {
    const text = readFileSync(join("migrations", name), "utf8");
    const sha256 = createHash("sha256").update(text).digest("hex");
    return `${text}\ninsert into schema_migration (name, sha256) values ('${name}', '${sha256}');`;
  });
  const tables = Object.entries(FIXTURE.rows).map(([table, rows]) => {
    const json = JSON.stringify(rows).replaceAll("'", "''");
    return `insert into ${table} select * from json_populate_recordset(null::${table}, '${json}');`;
  });
  return [
    "drop schema public cascade; create schema public;",
    "create table schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now());",
    ...migrations,
    ...tables,
  ].join("\n");
}

beforeEach(async () => {
  database = await createTestDatabase();
  const before = await database.open();
  await before.query({ text: `do $upgrade$ begin execute $script$${previousReleaseScript()}$script$; end $upgrade$` });
  await before.close();
  db = await database.open();
  ledger = createLedger({
    db,
    clock: createManualClock("2026-03-03T00:00:00.000Z"),
    invariants: [],
    with_hooks: null,
  });
});

afterEach(async () => {
  await db.close();
  await database.drop();
});

async function exported(user_id: string): Promise<string> {
  let text = entriesHead;
  for await (const part of ledger.allEntries(user_id, {})) text += entryLines(user_id, part);
  return text;
}

it("a ledger from before price classes has a clean audit, and every entry keeps its hash", async () => {
  expect(await ledger.audit()).toMatchObject({ ok: true, violations: [], checked: { usage_events: 6, entries: 11 } });
  const hashes = await db.query<{ hash: string }>({
    text: "select encode(hash, 'hex') as hash from entry order by user_id, seq",
  });
  const before = FIXTURE.rows.entry.toSorted((a: Entry, b: Entry) =>
    a.user_id < b.user_id ? -1 : a.user_id > b.user_id ? 1 : a.seq - b.seq,
  );
  expect(hashes.map(({ hash }) => `\\x${hash}`)).toEqual(before.map(({ hash }: Entry) => hash));
  for (const user_id of [FIXTURE.user, FIXTURE.other]) {
    async function* pieces() {
      yield await exported(user_id);
    }
    expect(await verifyExport(readExport(pieces()))).toMatchObject({ violations: [] });
  }
});

it("its charges have no cache writes and an unknown upstream cost", async () => {
  const [charge] = await ledger.charges(FIXTURE.user, "request-1", 10);
  expect(charge?.charge).toMatchObject({
    input_tokens: 500,
    cached_input_tokens: 400,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    cached_input_rate_micro: 33_333,
    cache_write_rate_micro: null,
    price_version: "0123456789abcdef",
  });
  const costs = await db.query({ text: "select distinct upstream_cost_micro_usd from usage_event" });
  expect(costs).toEqual([{ upstream_cost_micro_usd: null }]);
});

it("its open holds end by their settle, at their last progress, or by a release", async () => {
  const written = { cache_write_tokens: 0, cache_write_1h_tokens: 0 };
  await ledger.settle(settleOf(FIXTURE.other, FIXTURE.lost, 15, written));
  await db.query({ text: "update hold set expires_at = now() - interval '1 minute'" });
  await ledger.sweep();
  expect(await db.query({ text: "select count(*) as open from hold" })).toEqual([{ open: 0 }]);
  const events = await db.query({
    text: "select hold_id, cost, from_progress from usage_event where hold_id in ($1, $2) order by cost",
    values: [FIXTURE.running, FIXTURE.lost],
  });
  expect(events).toEqual([
    { hold_id: FIXTURE.running, cost: 12, from_progress: true },
    { hold_id: FIXTURE.lost, cost: 15, from_progress: false },
  ]);
  expect(await ledger.audit()).toMatchObject({ ok: true });
});

interface Entry {
  user_id: string;
  seq: number;
  hash: string;
}
