import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunSearch } from "../../src/agents/runs/runs.types.ts";
import { mergeSearchEntries, type SearchCursor, searchRuns } from "../../src/agents/runs/search.store.ts";
import type { Db, Tx } from "../../src/platform/db/db.ts";
import { instantOf } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

// A user with 10,000 runs, beside other users with as many: contract 6.7.2.

const RUNS = 20_000;
const PAGE = 20;
/** Rows of `run` that a page may read, if few match or the filter has the order of an index. */
const FEW = 600;
const uuid = (nth: number) => `00000000-0000-7000-8000-${String(nth).padStart(12, "0")}`;
const USER = uuid(1);
const queuedAt = (n: number) => instantOf(Date.parse("2026-01-01T00:00:00Z") + n * 600_000);

/** Every property of a run follows from its number. */
function runOf(n: number) {
  const trigger = n % 2003 === 0 ? "chat" : n % 3 === 0 ? "schedule" : "manual";
  const status = n % 1999 === 0 ? "queued" : n % 997 === 0 ? "failed" : n % 2001 === 0 ? "cancelled" : "succeeded";
  const ended = status !== "queued";
  const error = { code: "timeout", message: "It took longer than allowed." };
  return {
    user_id: n % 2 === 1 ? USER : uuid(2 + (n % 20)),
    id: uuid(n),
    agent_id: uuid(n % 499),
    agent_version: 1,
    trigger,
    status,
    schedule_id: trigger === "schedule" ? uuid(n % 251) : null,
    scheduled_for: trigger === "schedule" ? queuedAt(n) : null,
    queued_at: queuedAt(n),
    finished_at: ended ? queuedAt(n + 1) : null,
    engine_input: {},
    priority: 1,
    input: { row: `row${n}`, text: "one\ntwo" },
    metadata: { batch: `b${Math.floor(n / 100)}`, all: "same" },
    output: ended ? `Here is word${n % 1009}, as you asked.` : null,
    error: status === "failed" ? error : null,
    api_key_id: n % 5 === 0 ? uuid(n % 401) : null,
    end_user: n % 7 === 0 ? `customer-${n % 503}` : null,
  };
}
const runs = Array.from({ length: RUNS }, (_, nth) => runOf(nth + 1));
type Run = (typeof runs)[number];

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  for (let at = 0; at < RUNS; at += 2_000) {
    await db.query({
      text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, schedule_id, scheduled_for, queued_at,
          finished_at, engine_input, priority, input, metadata, output, error, api_key_id, end_user)
        select user_id, id, agent_id, agent_version, trigger, status, schedule_id, scheduled_for, queued_at, finished_at, engine_input,
          priority, input, metadata, output, nullif(error, 'null'), api_key_id, end_user
        from jsonb_to_recordset($1::jsonb) as run(user_id uuid, id uuid, agent_id uuid, agent_version integer, trigger text,
          status text, schedule_id uuid, scheduled_for timestamptz, queued_at timestamptz, finished_at timestamptz, engine_input jsonb,
          priority smallint, input jsonb, metadata jsonb, output text, error jsonb, api_key_id uuid, end_user text)`,
      values: [JSON.stringify(runs.slice(at, at + 2_000))],
    });
  }
  await mergeSearchEntries(db);
  await db.query({ text: "analyze run" });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** The rows of `run` that the statements of this transaction have read. */
async function rowsRead(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ rows: number }>({
    text: "select (seq_tup_read + idx_tup_fetch)::integer as rows from pg_stat_xact_user_tables where relname = 'run'",
  });
  return row?.rows ?? Number.NaN;
}

const hasWord = (word: string) => (run: Run) =>
  JSON.stringify([run.output, run.input.row, run.error]).match(/\w+/g)?.includes(word) === true;

test.each<[filter: RunSearch, isFound: (run: Run) => boolean, most_rows?: number]>([
  [{}, () => true],
  [{ status: "succeeded" }, ({ status }) => status === "succeeded"],
  [{ status: "failed" }, ({ status }) => status === "failed"],
  [{ status: "cancelled" }, ({ status }) => status === "cancelled"],
  [{ status: "queued" }, ({ status }) => status === "queued"],
  [{ status: "running" }, () => false],
  [{ trigger: "chat" }, ({ trigger }) => trigger === "chat"],
  [{ trigger: "manual" }, ({ trigger }) => trigger === "manual"],
  [{ agent_id: uuid(77) }, ({ agent_id }) => agent_id === uuid(77)],
  [{ agent_id: uuid(77), status: "failed" }, ({ agent_id, status }) => agent_id === uuid(77) && status === "failed"],
  [{ schedule_id: uuid(33) }, ({ schedule_id }) => schedule_id === uuid(33)],
  [{ api_key_id: uuid(75) }, ({ api_key_id }) => api_key_id === uuid(75)],
  [{ user: "customer-35" }, ({ end_user }) => end_user === "customer-35"],
  [
    { from: queuedAt(4_000), to: queuedAt(4_500) },
    ({ queued_at }) => queued_at >= queuedAt(4_000) && queued_at < queuedAt(4_500),
  ],
  [{ to: queuedAt(300) }, ({ queued_at }) => queued_at < queuedAt(300)],
  [{ metadata: { batch: "b42" } }, ({ metadata }) => metadata.batch === "b42"],
  [
    { metadata: { batch: "b42", all: "same" }, trigger: "schedule" },
    ({ metadata, trigger }) => metadata.batch === "b42" && trigger === "schedule",
  ],
  [{ metadata: { batch: "none" } }, () => false],
  [{ q: "word77" }, hasWord("word77")],
  [{ q: "row4321" }, hasWord("row4321")],
  [{ q: "row4322" }, () => false],
  [{ q: "HERE word77 two" }, hasWord("word77")],
  [{ q: "timeout" }, hasWord("timeout")],
  [{ q: "word77 word78" }, () => false],
  [{ q: "word77", metadata: { batch: "b10" } }, (run) => hasWord("word77")(run) && run.metadata.batch === "b10"],
  // A word of all of the user's runs reads all of them, and no other user's.
  [{ q: "asked" }, ({ output }) => output !== null, 11_000],
])("%j finds the user's runs page by page, and reads few others", async (filter, isFound, most_rows = FEW) => {
  const expected = runs.filter((run) => run.user_id === USER && isFound(run)).map(({ id }) => id);
  const limit = expected.length > 1_000 ? 1_000 : PAGE;
  const next = (after: SearchCursor | null) => searchRuns(db, USER, filter, { limit, after });
  const found: string[] = [];
  for (let page = await next(null); page.length > 0; page = await next(page.at(-1) ?? null)) {
    found.push(...page.map(({ id }) => id));
  }
  expect(found).toEqual(expected.toReversed());
  const read = await db.transaction(async (tx) => {
    const before = await rowsRead(tx);
    await searchRuns(tx, USER, filter, { limit: PAGE, after: null });
    return (await rowsRead(tx)) - before;
  });
  expect(read).toBeLessThanOrEqual(most_rows);
});
