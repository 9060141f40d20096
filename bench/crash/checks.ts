import { RUN_STATUSES, type RunStatus } from "../../src/api/contract/runs.ts";
import type { BenchService } from "../support/service.ts";
import type { CrashUser, Seen } from "./callers.ts";
import { costOf } from "./upstream.ts";

const PAGE = 100;
/** Each user's first grant. */
const BUCKETS_BEFORE = 1;

interface Entry {
  seq: number;
  type: string;
  amount: number;
  request_id: string | null;
  run_id: string | null;
}

interface Run {
  id: string;
  status: string;
  usage: { cost_tokens: number };
}

interface Profile {
  balance: { posted: number; held: number; available: number; debt: number };
}

/** A user's ledger as the API shows it, read from the end of the last check. */
interface Book {
  last_seq: number;
  /** The sum of all entries. */
  balance: number;
  /** Billed tokens, of calls by request id and of runs by run id. */
  calls: Map<string, number>;
  runs: Map<string, number>;
}

/** Compares the callers' answers with the service's records. Keeps its cursor in each ledger. */
export function createChecks(users: readonly CrashUser[], seen: ReadonlyMap<string, Seen>) {
  const each = users.map((user) => {
    const book: Book = { last_seq: 0, balance: 0, calls: new Map(), runs: new Map() };
    const mine = seen.get(user.id);
    if (mine === undefined) throw new Error(`no caller is registered for ${user.id}`);
    return { user, mine, book };
  });
  type Checked = (typeof each)[number];

  async function ofEach(check: (checked: Checked) => Promise<string[]>): Promise<string[]> {
    const found: string[] = [];
    for (const checked of each) {
      found.push(...(await check(checked)).map((problem) => `user ${checked.user.id}: ${problem}`));
    }
    return found;
  }

  return {
    /** Violations after a crash. Call it when no request is running; runs may be. */
    async afterKill(service: BenchService): Promise<string[]> {
      const problems = await ofEach(async ({ user, mine, book }) => [
        ...(await readOn(service, user, { book, seen: mine })),
        ...lostCharges(book, mine),
        ...(await topUpProblems(service, user, mine)),
        ...mine.surprises,
      ]);
      return [...problems, ...(await auditProblems(service))];
    },
    /** Violations after all runs have ended and the holds of dead processes have expired. */
    atRest: (service: BenchService) =>
      ofEach(async ({ user, mine, book }) => [
        ...(await runProblems(service, user, { book, seen: mine })),
        ...(await balanceProblems(service, user, book)),
      ]),
    /** Whether any run is unfinished or any token held. */
    async isBusy(service: BenchService): Promise<boolean> {
      for (const { user } of each) {
        if ((await profileOf(service, user)).balance.held > 0) return true;
        if ((await runsOf(service, user)).some(({ status }) => isOpen(status))) return true;
      }
      return false;
    },
  };
}

/**
 * Reads the entries since the last check into the book, oldest first. Returns problems of their order and of new
 * charges.
 */
async function readOn(service: BenchService, user: CrashUser, { book, seen }: { book: Book; seen: Seen }) {
  const fresh: Entry[] = [];
  const isKnown = ({ seq }: Entry) => seq <= book.last_seq;
  for await (const page of pages<Entry>(service, user, "/users/me/transactions", "transactions")) {
    fresh.push(...page.filter((entry) => !isKnown(entry)));
    if (page.some(isKnown)) break;
  }
  const wrong: string[] = [];
  const charged = new Set<string>();
  for (const { seq, type, amount, request_id, run_id } of fresh.reverse()) {
    book.last_seq += 1;
    book.balance += amount;
    if (seq !== book.last_seq) wrong.push(`entry ${seq} stands where ${book.last_seq} should`);
    if (type === "grant") continue;
    if (type !== "usage") wrong.push(`an entry of the type ${type}`);
    const [sums, id] = run_id === null ? [book.calls, request_id ?? "none"] : [book.runs, run_id];
    sums.set(id, (sums.get(id) ?? 0) - amount);
    if (run_id === null) charged.add(id);
  }
  for (const id of charged) {
    const cost = costOf(id);
    const paid = book.calls.get(id) ?? 0;
    // a stream that died with its process is charged for the output it had recorded
    const is_right = seen.unanswered.has(id) ? paid > 0 && paid <= cost : paid === cost;
    if (!is_right) wrong.push(`${id} costs ${cost}, charged ${paid}`);
    if (!seen.acknowledged.has(id) && !seen.unanswered.has(id)) wrong.push(`${id} was charged and never sent`);
  }
  return wrong;
}

function lostCharges(book: Book, { acknowledged }: Seen): string[] {
  return [...acknowledged]
    .filter(([id, cost]) => book.calls.get(id) !== cost)
    .map(([id, cost]) => `${id} was told ${cost} and charged ${book.calls.get(id) ?? "nothing"}`);
}

async function topUpProblems(service: BenchService, user: CrashUser, { buckets, unanswered_top_ups }: Seen) {
  const rows = await all<{ id: string }>(service, user, "/users/me/buckets?include=closed", "buckets");
  const known = new Set(rows.map(({ id }) => id));
  const wrong = [...buckets].filter((id) => !known.has(id)).map((id) => `top-up ${id} was acknowledged and is gone`);
  const most = BUCKETS_BEFORE + buckets.size + unanswered_top_ups;
  if (known.size > most) wrong.push(`${known.size} buckets, of ${most} top-ups that were asked for`);
  return wrong;
}

async function runProblems(service: BenchService, user: CrashUser, { book, seen }: { book: Book; seen: Seen }) {
  const runs = await runsOf(service, user);
  const known = new Set(runs.map(({ id }) => id));
  return [
    ...[...seen.runs].filter((id) => !known.has(id)).map((id) => `run ${id} was acknowledged and is gone`),
    ...runs.filter(({ status }) => isOpen(status)).map(({ id, status }) => `run ${id} is still ${status}`),
    ...runs
      .filter(({ id, usage }) => (book.runs.get(id) ?? 0) !== usage.cost_tokens)
      .map(({ id, usage }) => `run ${id} cost ${usage.cost_tokens}, charged ${book.runs.get(id) ?? "nothing"}`),
  ];
}

async function balanceProblems(service: BenchService, user: CrashUser, book: Book): Promise<string[]> {
  const { balance } = await profileOf(service, user);
  const { posted, held, available, debt } = balance;
  const holds = posted === book.balance && available === posted && held === 0 && debt === 0;
  return holds ? [] : [`the balance is ${JSON.stringify(balance)}, the entries leave ${book.balance}`];
}

async function auditProblems(service: BenchService): Promise<string[]> {
  const { violations } = await service.call<{ violations: unknown[] }>("GET", "/api/v1/admin/audit");
  return violations.slice(0, 10).map((violation) => `the audit found ${JSON.stringify(violation)}`);
}

function profileOf(service: BenchService, { key }: CrashUser): Promise<Profile> {
  return service.call("GET", "/api/v1/users/me", { key });
}

function runsOf(service: BenchService, user: CrashUser): Promise<Run[]> {
  return all(service, user, `/agents/${user.agent_id}/runs`, "runs");
}

function isOpen(status: string): boolean {
  return RUN_STATUSES[status as RunStatus]?.phase !== "ended";
}

async function all<Row>(service: BenchService, user: CrashUser, path: string, name: string): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const page of pages<Row>(service, user, path, name)) rows.push(...page);
  return rows;
}

/** A list of the API, page after page. */
async function* pages<Row>(service: BenchService, { key }: CrashUser, path: string, name: string) {
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = `${path.includes("?") ? "&" : "?"}limit=${PAGE}${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const page = await service.call<Record<string, unknown>>("GET", `/api/v1${path}${query}`, { key });
    yield page[name] as Row[];
    cursor = page.next_cursor as string | null;
  }
}
