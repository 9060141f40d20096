import { createLedger } from "../../src/ledger/ledger.service.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import { createLog } from "../../src/platform/log.ts";
import { openDb } from "../../src/platform/open-db.ts";
import type { LoadedUser } from "./crash-load.ts";
import type { BenchService, Place } from "./service.ts";

const RUNS_SETTLE_MS = 300_000;
const POLL_MS = 1_000;

interface Entry {
  request_id: string;
  run_id: string | null;
  amount: number;
}
interface Run {
  id: string;
  status: string;
  usage: { cost_tokens: number };
}

/** All rows of a list, page after page. */
async function all<Row>(service: BenchService, user: LoadedUser, path: string, name: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = `${path.includes("?") ? "&" : "?"}limit=100${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const page = await service.call<Record<string, unknown>>("GET", `/api/v1${path}${query}`, { key: user.key });
    rows.push(...(page[name] as Row[]));
    cursor = page.next_cursor as string | null;
  }
  return rows;
}

function sums(entries: readonly Entry[], keyOf: (entry: Entry) => string | null): Map<string, number> {
  const totals = new Map<string, number>();
  for (const entry of entries) {
    const key = keyOf(entry);
    if (key !== null) totals.set(key, (totals.get(key) ?? 0) - entry.amount);
  }
  return totals;
}

/** What does not hold of a ledger: its own audit, each violation a sentence. */
export async function auditProblems(service: BenchService): Promise<string[]> {
  const report = await service.call<{ violations: { invariant: string; detail: string }[] }>(
    "GET",
    "/api/v1/admin/audit",
  );
  return report.violations.map(({ invariant, detail }) => `${invariant}: ${detail}`);
}

/** Acknowledged charges that are not in the ledger to the token, once, and acknowledged top-ups that are no bucket. */
export async function lostProblems(service: BenchService, user: LoadedUser, since: string): Promise<string[]> {
  const { charges, buckets } = user.acknowledged;
  const entries = await all<Entry>(service, user, `/users/me/transactions?type=usage&from=${since}`, "transactions");
  const charged = sums(entries, ({ request_id }) => request_id);
  const rows = await all<{ id: string }>(service, user, "/users/me/buckets?include=closed", "buckets");
  const known = new Set(rows.map(({ id }) => id));
  return [
    ...[...charges]
      .filter(([id, cost]) => charged.get(id) !== cost)
      .map(([id, cost]) => `request ${id} was answered with a cost of ${cost}; the ledger has ${charged.get(id)}`),
    ...[...buckets].filter((id) => !known.has(id)).map((id) => `top-up ${id} was acknowledged and is not there`),
  ];
}

/** Waits until every run has ended; acknowledged runs that are not there, and runs whose cost is not what was charged. */
export async function runProblems(service: BenchService, user: LoadedUser): Promise<string[]> {
  const deadline_ms = performance.now() + RUNS_SETTLE_MS;
  const list = () => all<Run>(service, user, `/agents/${user.agent_id}/runs`, "runs");
  const isOpen = ({ status }: Run) => !["succeeded", "failed", "cancelled"].includes(status);
  let runs = await list();
  while (runs.some(isOpen) && performance.now() < deadline_ms) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    runs = await list();
  }
  const known = new Set(runs.map(({ id }) => id));
  const entries = await all<Entry>(service, user, "/users/me/transactions?type=usage", "transactions");
  const charged = sums(entries, ({ run_id }) => run_id);
  return [
    ...runs.filter(isOpen).map(({ id, status }) => `run ${id} is still ${status}`),
    ...[...user.acknowledged.runs].filter((id) => !known.has(id)).map((id) => `run ${id} was acknowledged and is gone`),
    ...runs
      .filter(({ id, usage }) => (charged.get(id) ?? 0) !== usage.cost_tokens)
      .map(({ id, usage }) => `run ${id} cost ${usage.cost_tokens}; the ledger has ${charged.get(id) ?? 0}`),
  ];
}

/** Of a stopped service: what is still held once every hold is past its expiry and the sweep has been there. */
export async function holdProblems(place: Place): Promise<string[]> {
  const log = createLog("silent");
  const db = await openDb({ database_url: place.database_url, data_dir: place.folder, log });
  try {
    const ledger = createLedger({ db, clock: createSystemClock() });
    await db.query({ text: "update hold set expires_at = clock_timestamp() - interval '1 second'" });
    await ledger.sweep();
    const [left] = await db.query<{ holds: number; held: number }>({
      text: "select (select count(*) from hold) as holds, (select sum(held) from account) as held",
    });
    const report = await ledger.audit();
    const problems = report.violations.map(({ invariant, detail }) => `after the sweep, ${invariant}: ${detail}`);
    if (left?.holds !== 0 || left.held !== 0)
      problems.push(`${left?.holds} holds of ${left?.held} tokens were not let go`);
    return problems;
  } finally {
    await db.close();
  }
}
