import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveClosedMonths } from "../../src/account/ledger/archive.service.ts";
import { verifyArchive } from "../../src/account/ledger/archive-file.ts";
import { entriesHead, entryLines, readExport } from "../../src/account/ledger/export-file.ts";
import type { Ledger } from "../../src/account/ledger/ledger.types.ts";
import { createVerifier, verifyExport } from "../../src/account/ledger/verify-export.ts";
import { readUsageOfAll } from "../../src/operator/usage.store.ts";
import type { Db, Sql, Tx } from "../../src/platform/db/db.ts";
import { addSeconds } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runPurser } from "../support/process.ts";
import { createLedgerFixture, holdOf, settleOf } from "./ledger-fixture.ts";

/** PROPERTY_SEED replays a run; PROPERTY_OPS makes it longer. */
const SEED = Number(process.env.PROPERTY_SEED ?? Date.now() % 1_000_000);
const OPERATIONS = Number(process.env.PROPERTY_OPS ?? 300);
const USERS = 6;
const START = "2025-01-01T00:00:00.000Z";
const DAY_S = 86_400;

let database: TestDatabase;
let db: Db;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  folder = mkdtempSync(join(tmpdir(), "purser-archive-"));
});
afterAll(async () => {
  await db.close().catch(() => {}); // the test of the command closes it as well
  await database.drop();
  rmSync(folder, { recursive: true });
});

class KilledError extends Error {}

/** A database whose process dies around the n-th statement: before the statement, or before its answer. */
function dyingDb(n: number): Db {
  let left = n;
  const dying = <T extends Sql>(sql: T): T => ({
    ...sql,
    query: async <Row>(statement: Parameters<Sql["query"]>[0]) => {
      left -= 0.5;
      if (left <= 0) throw new KilledError();
      const rows = await sql.query<Row>(statement);
      left -= 0.5;
      if (left <= 0) throw new KilledError();
      return rows;
    },
  });
  return { ...dying(db), transaction: (work) => db.transaction((tx: Tx) => work(dying(tx))) };
}

function generator(seed: number) {
  let state = seed;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (end: number) => Math.floor(random() * end);
  return { random, below, pick: <T>(of: readonly T[]): T => of[below(of.length)] as T };
}

const archive = (on: Db, until: Instant) => archiveClosedMonths({ db: on, folder, report: () => {} }, until);
const manifests = () => readdirSync(folder).filter((file) => file.startsWith("archive-") && file.endsWith(".jsonl"));
const rowsOf = (file: string) =>
  gunzipSync(readFileSync(join(folder, file)))
    .toString()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { user_id: string; hold_id: string; seq: number });
const inFiles = (table: string) =>
  readdirSync(folder)
    .filter((file) => file.startsWith(`${table}-`) && file.endsWith(".gz"))
    .flatMap(rowsOf);

/** Archives all months, then exports the database of each user. */
async function verifyAll(ledger: Ledger, user_ids: readonly string[]) {
  const verifier = createVerifier();
  for (const manifest of manifests().sort()) await verifyArchive(join(folder, manifest), verifier);
  for (const user_id of user_ids) {
    async function* file() {
      yield entriesHead;
      for await (const part of ledger.allEntries(user_id, {})) yield entryLines(user_id, part);
    }
    await verifyExport(readExport(file()), verifier);
  }
  return verifier;
}

/** All answers that an archive must not change. */
async function figuresOf(ledger: Ledger, user_ids: readonly string[]) {
  const window = { from: START, to: "2028-01-01T00:00:00.000Z" };
  const of_users = user_ids.map(async (user_id) => [
    await ledger.accountStatus(user_id),
    (await ledger.buckets(user_id, { include_closed: true, limit: 1_000, after: null })).buckets,
    await ledger.usage(user_id, 365),
    await ledger.usageGroups(user_id, { group_by: "user", days: 365, limit: 100, after: null }),
  ]);
  const groups = (["model", "user", "plan", "day"] as const).map((group_by) =>
    readUsageOfAll(db, { ...window, group_by }),
  );
  return { users: await Promise.all(of_users), all: await Promise.all(groups) };
}

/** The usage by model, computed from the call rows before any archive has moved them. */
const usageOfRows = () =>
  db.query({
    text: `select model as name, count(*) as requests, sum(input_tokens + output_tokens) as tokens, sum(cost) as cost_tokens,
        count(*) - count(upstream_cost_micro_usd) as requests_of_unknown_cost
      from usage_event where created_at >= $1 group by 1 order by 4 desc, 1`,
    values: [START],
  });

interface Call {
  user_id: string;
  hold_id: string;
  api_key_id: string | null;
  model: string;
}

/** Random operations of several users over many months. */
function createWorld(ledgerFixture: ReturnType<typeof createLedgerFixture>, user_ids: readonly string[]) {
  const { ledger, clock } = ledgerFixture;
  const { below, pick } = generator(SEED);
  const keys = [null, newId(), newId()];
  const open: Call[] = [];
  const lost: Call[] = [];
  const settled = new Set<string>();
  const buckets: { user_id: string; id: string }[] = [];
  const chargeOf = ({ user_id, hold_id, api_key_id, model }: Call, cost: number) => {
    const labels = pick([{}, { labels: { user: `customer-${below(3)}` } }]);
    return settleOf(user_id, hold_id, cost, {
      api_key_id,
      model,
      ...labels,
      upstream_cost_micro_usd: pick([null, cost]),
    });
  };
  const settle = async (call: Call, cost: number) => {
    await ledger.settle(chargeOf(call, cost));
    settled.add(call.hold_id);
  };
  const steps = {
    grant: async () => {
      const user_id = pick(user_ids);
      const { id } = await ledgerFixture.grant(user_id, 100 + below(2_000), DAY_S * (1 + below(60)));
      buckets.push({ user_id, id });
    },
    hold: async () => {
      const user_id = pick(user_ids);
      const api_key_id = pick(keys);
      // the time in its id is real time
      const hold_id = v7({ msecs: Date.parse(clock.now()) });
      const held = await ledger.hold(holdOf(user_id, 1 + below(300), { api_key_id, hold_id }));
      if (held.status !== "held") return;
      open.push({ user_id, hold_id: held.hold_id, api_key_id, model: pick(["lab/small", "lab/large"]) });
    },
    settle: async () => {
      const [call] = open.splice(below(open.length + 1), 1);
      if (call !== undefined) await settle(call, pick([0, below(400)]));
    },
    lose: async () => {
      const [call] = open.splice(below(open.length + 1), 1);
      if (call === undefined) return;
      const { user_id, hold_id } = call;
      await ledger.progress([{ user_id, hold_id, charge: chargeOf(call, below(50)) }]);
      await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [call.hold_id] });
      await ledger.sweep();
      settled.add(call.hold_id);
      lost.push(call);
    },
    late: async () => {
      const [call] = lost.splice(below(lost.length + 1), 1);
      if (call !== undefined) await settle(call, 50 + below(100));
    },
    reverse: async () => {
      const bucket = buckets.length > 0 ? pick(buckets) : undefined;
      if (bucket === undefined) return;
      const reversal = { user_id: bucket.user_id, bucket_id: bucket.id, amount_tokens: 1 + below(500), reason: "back" };
      const back = await ledger.clawBack({ ...reversal, key: newId() });
      if (back.reversed_tokens > 0 && below(2) === 0)
        await ledger.reinstate({ ...reversal, amount_tokens: back.reversed_tokens, key: newId() });
    },
    adjust: async () => {
      const expires_at = addSeconds(clock.now(), DAY_S * (1 + below(60)));
      const adjustment = { user_id: pick(user_ids), amount_tokens: pick([200, -20]), reason: "correction", expires_at };
      await db.transaction((tx) => ledger.adjust(tx, adjustment)).catch(() => {});
    },
    overage: () => ledger.setOverage({ user_id: pick(user_ids), cap_tokens: pick([null, 5_000]) }),
    pass: async () => ledgerFixture.pass(3_600 * below(200)),
  };
  const names = [
    "grant",
    "hold",
    "hold",
    "hold",
    "settle",
    "settle",
    "lose",
    "late",
    "reverse",
    "adjust",
    "overage",
    "pass",
    "pass",
  ];
  return {
    step: () => steps[pick(names) as keyof typeof steps](),
    settled,
    random: { below, pick },
  };
}

describe("an archive of closed months", () => {
  test("makes its charges final: a settle that is months late charges nothing more", async () => {
    const fixture = createLedgerFixture(db, "2024-03-10T00:00:00.000Z");
    const user_id = await fixture.account(1_000);
    const hold_ids = [1, 2].map(() => v7({ msecs: Date.parse(fixture.clock.now()) }));
    const [lost = "", settled = ""] = hold_ids;
    for (const hold_id of hold_ids) await fixture.hold(user_id, 100, { hold_id });
    await fixture.ledger.progress([{ user_id, hold_id: lost, charge: settleOf(user_id, lost, 10) }]);
    await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [lost] });
    await fixture.ledger.sweep();
    await fixture.settle(user_id, settled, 50);
    fixture.clock.put("2024-05-10T00:00:00.000Z");
    await archive(db, "2024-05-01T00:00:00.000Z");
    const before = await fixture.ledger.accountStatus(user_id);
    for (const hold_id of hold_ids) {
      const late = await fixture.settle(user_id, hold_id, 90);
      expect(late).toMatchObject({ status: "settled", replayed: true, charged_tokens: 0, absorbed_tokens: 90 });
    }
    expect(await fixture.ledger.accountStatus(user_id)).toEqual(before);
    expect(await fixture.ledger.archivedBefore(user_id)).toBe("2024-04-01T00:00:00.000Z");
    expect((await fixture.ledger.audit()).violations).toEqual([]);
  });

  test("lets a lost call of a later month still be charged, also if it had cost nothing so far", async () => {
    const fixture = createLedgerFixture(db, "2024-04-12T00:00:00.000Z");
    const user_id = await fixture.account(1_000);
    fixture.clock.put("2024-05-10T00:00:00.000Z");
    const hold_id = v7({ msecs: Date.parse(fixture.clock.now()) });
    await fixture.hold(user_id, 100, { hold_id });
    await fixture.ledger.progress([{ user_id, hold_id, charge: settleOf(user_id, hold_id, 0) }]);
    await db.query({ text: "update hold set expires_at = clock_timestamp() where id = $1", values: [hold_id] });
    await fixture.ledger.sweep();
    await archive(db, "2024-05-01T00:00:00.000Z");
    const late = await fixture.settle(user_id, hold_id, 90);
    expect(late).toMatchObject({ status: "settled", replayed: false, charged_tokens: 90 });
    fixture.clock.put("2024-06-10T00:00:00.000Z");
    await archive(db, "2024-06-01T00:00:00.000Z");
    expect((await fixture.ledger.audit()).violations).toEqual([]);
    expect((await verifyAll(fixture.ledger, [user_id])).result().violations).toEqual([]);
  });

  test("keeps what a claw-back needs: tokens that expired in an archived month do not become debt", async () => {
    const fixture = createLedgerFixture(db, "2024-06-10T00:00:00.000Z");
    const user_id = await fixture.account();
    const { id: bucket_id } = await fixture.grant(user_id, 500, DAY_S);
    fixture.clock.put("2024-06-20T00:00:00.000Z");
    await fixture.ledger.sweep();
    await archive(db, "2024-08-01T00:00:00.000Z");
    fixture.clock.put("2024-08-10T00:00:00.000Z");
    const reversal = { user_id, bucket_id, amount_tokens: 500, reason: "refund", key: newId() };
    expect(await fixture.ledger.clawBack(reversal)).toMatchObject({ debt_tokens: 0 });
    expect((await fixture.ledger.audit()).violations).toEqual([]);
  });

  test(`neither loses nor duplicates a row, between random operations and with random kills (seed ${SEED})`, {
    timeout: 120_000,
  }, async () => {
    const fixture = createLedgerFixture(db, START);
    const user_ids: string[] = [];
    for (let n = 0; n < USERS; n += 1) user_ids.push(await fixture.account(1_000));
    const world = createWorld(fixture, user_ids);
    let kills = 0;
    for (let operation = 0; operation < OPERATIONS; operation += 1) {
      await world.step();
      if (operation % 50 !== 49) continue;
      const until = `${fixture.clock.now().slice(0, 7)}-01T00:00:00.000Z`;
      const before = await figuresOf(fixture.ledger, user_ids);
      if (operation === 49) expect(before.all[0]).toMatchObject(await usageOfRows());
      for (let left = world.random.below(4); left > 0; left -= 1) {
        await archive(dyingDb(1 + world.random.below(60)), until).catch((error: unknown) => {
          if (!(error instanceof KilledError)) throw error;
          kills += 1;
        });
        expect((await fixture.ledger.audit()).violations).toEqual([]);
        expect(await figuresOf(fixture.ledger, user_ids)).toEqual(before);
      }
      if (world.random.below(2) === 0) continue;
      await archive(db, until);
      expect((await fixture.ledger.audit()).violations).toEqual([]);
      expect(await figuresOf(fixture.ledger, user_ids)).toEqual(before);
    }
    // The last kill may have left files, which the next archive deletes.
    await archive(db, `${fixture.clock.now().slice(0, 7)}-01T00:00:00.000Z`);
    const { violations } = (await verifyAll(fixture.ledger, user_ids)).result();
    expect(violations).toEqual([]);
    const kept = await db.query<{ hold_id: string }>({ text: "select hold_id from usage_event" });
    const all = [...inFiles("usage_event"), ...kept].map(({ hold_id }) => hold_id);
    expect(new Set(all).size).toBe(all.length);
    expect([...world.settled].filter((hold_id) => !all.includes(hold_id))).toEqual([]);
    expect(kills).toBeGreaterThan(0);
    const [erased = ""] = user_ids;
    const figures = await fixture.ledger.usage(erased, 365);
    await db.transaction((tx) => fixture.ledger.end_users.forgetUser(tx, erased));
    for (const table of ["usage_label_daily", "archived_label_daily", "usage_event where labels is not null and"]) {
      const text = `select from ${table} ${table.includes(" ") ? "" : "where"} user_id = $1`;
      await expect.poll(() => db.query({ text, values: [erased] }), { message: table }).toEqual([]);
    }
    expect(await fixture.ledger.usage(erased, 365)).toEqual(figures);
    expect((await fixture.ledger.audit()).violations).toEqual([]);
    expect(manifests().length).toBeGreaterThan(2);
    expect(readdirSync(folder).filter((file) => file.endsWith(".partial"))).toEqual([]);
  });
});

describe("purser archive", () => {
  const settings = () => ({
    DATA_DIR: database.data_dir,
    ...(database.database_url !== null && {
      DATABASE_URL: database.database_url,
      PURSER_KEK: `k1:${Buffer.alloc(32).toString("base64")}`,
    }),
  });

  test("and the audit of its files find every hash chain whole, and a changed file", { timeout: 120_000 }, async () => {
    const fixture = createLedgerFixture(db, "2026-06-10T00:00:00.000Z");
    const user_id = await fixture.account(1_000, 2_000);
    fixture.clock.put("2026-11-01T00:00:00.000Z");
    await fixture.grant(user_id, 5);
    const csv = join(folder, "transactions.csv");
    await db.close();
    const archived = await runPurser(["archive", "--older-than", "1", "--to", folder], settings());
    expect(archived).toMatchObject({ code: 0, stdout: expect.stringMatching(/moved .*2026-0\d.* to /) });
    const again = await runPurser(["archive", "--older-than", "1", "--to", folder], settings());
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing to move") });
    db = await database.open();
    const left = [entriesHead];
    for await (const part of createLedgerFixture(db).ledger.allEntries(user_id, {}))
      left.push(entryLines(user_id, part));
    writeFileSync(csv, left.join(""));
    await db.close();

    const audited = await runPurser(["audit", "--archive", folder], settings());
    expect(audited).toMatchObject({ code: 0, stdout: expect.stringContaining("each chain continues in the database") });
    const files = [
      ...manifests()
        .sort()
        .map((file) => join(folder, file)),
      csv,
    ];
    expect(await runPurser(["audit", "--verify", ...files])).toMatchObject({ code: 0, stderr: "" });
    // Without the archive, the chain of the export has no beginning.
    expect(await runPurser(["audit", "--verify", csv])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("name the manifests of the archive first"),
    });

    expect(await runPurser(["audit", "--archive", folder, "--verify", csv])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("not both"),
    });

    db = await database.open();
    const phase = "update archive_month set phase = $1 where month = (select max(month) from archive_month)";
    await db.query({ text: phase, values: ["written"] });
    await db.close();
    const under_way = await runPurser(["audit", "--archive", folder], settings());
    expect(under_way).toMatchObject({ code: 1, stdout: expect.stringContaining("run purser archive again") });
    expect(under_way.stdout).not.toContain("VIOLATION");
    db = await database.open();
    await db.query({ text: phase, values: ["moved"] });
    await db.close();

    const [file = ""] = readdirSync(folder).filter((name) => name.startsWith("usage_event-"));
    appendFileSync(join(folder, file), gzipSync("\n"));
    const changed = await runPurser(["audit", "--archive", folder], settings());
    expect(changed).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`${file}: it is not the file of its manifest`),
    });
    db = await database.open();
  });
});
