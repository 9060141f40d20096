import { createLedger } from "../src/account/ledger/ledger.service.ts";
import { createAccounts } from "../src/account/users/accounts.service.ts";
import { createAgentRuns } from "../src/agents/definitions/agent-runs.service.ts";
import { createScheduleKeys } from "../src/agents/definitions/schedule-keys.service.ts";
import type { ClaimedRun } from "../src/agents/runs/runs.types.ts";
import type { OnDue } from "../src/agents/schedules/tick.service.ts";
import type { Db } from "../src/platform/db/db.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { startSweeper } from "../src/platform/db/sweeper.ts";
import { createSystemClock } from "../src/platform/lib/clock.ts";
import { type Instant, instantOf } from "../src/platform/lib/instant.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { startPostgres } from "../test/support/postgres-server.ts";
import { createScheduling, type Scheduling } from "../test/support/scheduling.ts";
import * as bare from "./peers/bare-schedules.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { createPlace } from "./support/service.ts";
import { inTurn, medianOf, percentile } from "./support/statistics.ts";

const HERD = 10_000;
const QUEUE = 100_000;
const SCHEDULES = [10_000, 1_000_000] as const;
/** The schedules due at once, among all schedules. */
const SOME = 500;
const USERS = 1_000;
const CLAIM = 500;
const NO_LIMIT = 2_000_000_000;
const NO_LIMITS = { concurrent_runs: NO_LIMIT, concurrent_runs_per_user: NO_LIMIT };
/** Schedules due at the same instant. */
const BURSTS = [5_110, 51_100, 100_000] as const;
/** As a service's, when there is room for ten more. */
const USUAL_LIMITS = { concurrent_runs: 50, concurrent_runs_per_user: 10 };
const FEW_CLAIMED = 10;
/** Runs of other workers beside which a worker repeats its statements. */
const AT_WORK = [50, 5_000, 50_000] as const;

const clock = createSystemClock();

/** A database with the services that dispatch and claim. */
interface Bench {
  db: Db;
  scheduling: Scheduling;
  onDue: OnDue;
  close(): Promise<void>;
}

interface Dispatch {
  p50_ms: number;
  p99_ms: number;
  all_ms: number;
}

/** Schedules due at once and queued runs: dispatched and claimed, on PostgreSQL, beside bare SQL with the same work. */
export async function schedules(effort: Effort): Promise<Outcome> {
  const server = await startPostgres({ settings: ["track_commit_timestamp=on"] });
  try {
    const place = await createPlace(server);
    const db = await openDb({ database_url: place.database_url, data_dir: place.folder, log: createLog("silent") });
    const bench = await benchOver(db);
    try {
      return await measure(bench, effort);
    } finally {
      await bench.close();
      await place.drop();
    }
  } finally {
    await server.stop();
  }
}

async function benchOver(db: Db): Promise<Bench> {
  const scheduling = createScheduling({ db, clock });
  const accounts = await createAccounts({ db, clock });
  const notHere = () => {
    throw new Error("nothing here runs by hand");
  };
  const ledger = createLedger({ db, clock });
  const log = createLog("silent");
  const { onDue } = createAgentRuns({
    clock,
    runs: scheduling,
    schedules: scheduling,
    ledger: { accountStatus: notHere, keySpends: notHere, refills: ledger.refills },
    schedule_keys: createScheduleKeys({
      clock,
      ledger,
      log,
      schedules: scheduling,
      keysOf: accounts.keysOf,
    }),
    models: { find: () => null } as never,
    meansOf: notHere,
    suspended: accounts.suspended,
    find: notHere,
    withDraft: notHere,
  });
  const close = async () => {
    await accounts.close();
    await db.close();
  };
  return { db, scheduling, onDue, close };
}

async function measure(bench: Bench, { rounds, scale }: Effort): Promise<Outcome> {
  const herd = HERD * scale;
  const queue = QUEUE * scale;
  const dispatched = await inTurn(
    new Map([
      ["Purser", () => dispatch(bench, herd)],
      ["bare SQL", () => bareDispatch(bench, herd)],
    ]),
    rounds,
  );
  const claimed = await inTurn(
    new Map([
      ["Purser", () => claimAll(bench, queue, bench.scheduling.claim)],
      ["bare SQL", () => claimAll(bench, queue, (_, most) => bare.claim(bench.db, most))],
    ]),
    rounds,
  );
  const claims: number[] = [];
  for (const [users, queued] of [
    [10, 100],
    [1, herd],
    [herd, herd],
  ] as const) {
    claims.push(await claimFew(bench, users, queued));
  }
  const bursts: number[] = [];
  for (const due of BURSTS) bursts.push(await claimAfterBurst(bench, due * scale));
  const beside = await inTurn(
    new Map(AT_WORK.map((runs) => [`${runs}`, () => repeatBeside(bench, runs * scale, herd)])),
    rounds,
  );
  const ticks: number[] = [];
  for (const schedules of SCHEDULES) ticks.push(await tickAmong(bench, schedules * scale, SOME * scale));
  return outcomeOf({
    herd,
    queue,
    dispatched,
    claimed,
    claims,
    due: BURSTS.map((due) => due * scale),
    bursts,
    at_work: AT_WORK.map((runs) => runs * scale),
    beside: [...beside.values()].map((rounds) => medianRepeated(rounds)),
    schedules: SCHEDULES.map((size) => size * scale),
    ticks,
  });
}

async function seed({ db }: Bench, agents: number, users: number): Promise<void> {
  await bare.empty(db);
  await bare.insertAgents(db, { agents, users: Math.min(users, agents), now: clock.now() });
}

/** Makes `herd` agents due in the same second. Returns the delay until the transactions of their runs committed. */
async function dispatch(bench: Bench, herd: number): Promise<Dispatch> {
  await seed(bench, herd, USERS);
  const at = nextSecond();
  await bare.setDue(bench.db, at, herd);
  const carryOut = () => bench.scheduling.tick(bench.onDue);
  const source = { name: "schedules", nextDueAt: bench.scheduling.nextDueAt, carryOut };
  const sweeper = startSweeper({ sources: [source], log: createLog("silent") });
  await bare.untilDispatched(bench.db, herd);
  await sweeper.stop();
  return latenessOf(await bare.committedAfter(bench.db, at));
}

async function bareDispatch(bench: Bench, herd: number): Promise<Dispatch> {
  await seed(bench, herd, USERS);
  await bare.setDue(bench.db, clock.now(), herd);
  const took_ms = await timed(() => bare.dispatch(bench.db));
  return { p50_ms: took_ms, p99_ms: took_ms, all_ms: took_ms };
}

function latenessOf(ms: readonly number[]): Dispatch {
  const sorted = ms.toSorted((a, b) => a - b);
  return { p50_ms: percentile(sorted, 0.5), p99_ms: percentile(sorted, 0.99), all_ms: sorted.at(-1) ?? Number.NaN };
}

/** Milliseconds to claim `queued` runs, without the time to end claimed ones. */
async function claimAll(
  bench: Bench,
  queued: number,
  claim: (worker_id: string, most: number, limits: typeof NO_LIMITS) => Promise<readonly unknown[]>,
): Promise<number> {
  await bare.empty(bench.db);
  await bare.insertRuns(bench.db, { runs: queued, users: USERS, now: clock.now() });
  let took_ms = 0;
  let claimed = 0;
  while (claimed < queued) {
    let found: readonly unknown[] = [];
    took_ms += await timed(async () => {
      found = await claim("bench", CLAIM, NO_LIMITS);
    });
    if (found.length === 0) throw new Error("no run was claimed");
    claimed += found.length;
    await bare.endRuns(bench.db);
  }
  return took_ms;
}

/** The median milliseconds of one claim of a few runs from a queue. */
async function claimFew(bench: Bench, users: number, queued: number): Promise<number> {
  await bare.empty(bench.db);
  await bare.insertRuns(bench.db, { runs: queued, users, now: clock.now() });
  return repeatClaim(bench);
}

/** The median milliseconds of one claim of a few runs, after `due` schedules of many users were due at the same instant. */
async function claimAfterBurst(bench: Bench, due: number): Promise<number> {
  await seed(bench, due, USERS);
  await bare.setDue(bench.db, clock.now(), due);
  await bench.scheduling.tick(bench.onDue);
  return repeatClaim(bench);
}

async function repeatClaim(bench: Bench): Promise<number> {
  const times: number[] = [];
  for (let turn = 0; turn < 9; turn += 1) {
    times.push(await timed(() => bench.scheduling.claim("bench", FEW_CLAIMED, USUAL_LIMITS)));
    await bare.endRuns(bench.db);
  }
  return medianOf(times, Number);
}

/** Median milliseconds of the statements that each worker repeats. */
interface Repeated {
  claim_ms: number;
  renew_ms: number;
  reap_ms: number;
}

/** A worker's statements beside `at_work` runs of other workers, with `queued` runs of many users. */
async function repeatBeside(bench: Bench, at_work: number, queued: number): Promise<Repeated> {
  const { db, scheduling } = bench;
  await bare.empty(db);
  await bare.insertRunsAtWork(db, { runs: at_work, now: clock.now() });
  await bare.insertRuns(db, { runs: queued, users: USERS, now: clock.now() });
  const limits = { concurrent_runs: at_work + FEW_CLAIMED, concurrent_runs_per_user: 2 * FEW_CLAIMED };
  const times: Repeated[] = [];
  for (let turn = 0; turn < 40; turn += 1) {
    let claimed: ClaimedRun[] = [];
    const claim_ms = await timed(async () => {
      claimed = await scheduling.claim("bench", 2 * FEW_CLAIMED, limits);
    });
    if (claimed.length !== FEW_CLAIMED) throw new Error(`${claimed.length} runs were claimed`);
    const leases = claimed.map(({ lease }) => lease);
    const renew_ms = await timed(() => scheduling.heartbeat(leases));
    const reap_ms = await timed(() => scheduling.reap());
    times.push({ claim_ms, renew_ms, reap_ms });
    await bare.endRuns(db);
  }
  return medianRepeated(times);
}

function medianRepeated(times: readonly Repeated[]): Repeated {
  const median = (figure: keyof Repeated) => medianOf(times, (each) => each[figure]);
  return { claim_ms: median("claim_ms"), renew_ms: median("renew_ms"), reap_ms: median("reap_ms") };
}

/** Milliseconds of a tick that dispatches `due` of `agents` schedules. */
async function tickAmong(bench: Bench, agents: number, due: number): Promise<number> {
  await seed(bench, agents, agents / 10);
  const times: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    await bare.setDue(bench.db, clock.now(), due);
    times.push(await timed(() => bench.scheduling.tick(bench.onDue)));
    await bare.forgetRuns(bench.db);
  }
  return medianOf(times, Number);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from_ms = performance.now();
  await work();
  return performance.now() - from_ms;
}

/** A whole second that is at least one second away. */
function nextSecond(): Instant {
  return instantOf(Math.ceil(Date.parse(clock.now()) / 1000) * 1000 + 1000);
}

function outcomeOf(found: {
  herd: number;
  queue: number;
  dispatched: Map<string, Dispatch[]>;
  claimed: Map<string, number[]>;
  claims: number[];
  due: number[];
  bursts: number[];
  at_work: number[];
  beside: Repeated[];
  schedules: number[];
  ticks: number[];
}): Outcome {
  const count = (value: number) => value.toLocaleString("en-US");
  const late = (who: string, figure: keyof Dispatch) => medianOf(found.dispatched.get(who), (each) => each[figure]);
  const claim_ms = (who: string) => medianOf(found.claimed.get(who), Number);
  const [few = Number.NaN, , many = Number.NaN] = found.claims;
  const [small = Number.NaN, large = Number.NaN] = found.ticks;
  return {
    name: "schedules",
    title: "Schedules and the queue, PostgreSQL",
    tables: [
      {
        caption: `${count(found.herd)} agents due at the same second: due to committed, ms`,
        columns: ["p50", "p99", "all"],
        rows: ["Purser", "bare SQL"].map((name) => ({
          name,
          values: [late(name, "p50_ms"), late(name, "p99_ms"), late(name, "all_ms")],
        })),
        drawn: [2],
      },
      {
        caption: `${count(found.queue)} queued runs claimed, ${CLAIM} at a time`,
        columns: ["ms", "runs/s"],
        rows: ["Purser", "bare SQL"].map((name) => ({
          name,
          values: [claim_ms(name), (found.queue * 1000) / claim_ms(name)],
        })),
      },
      {
        caption: `One claim of ${FEW_CLAIMED}, ms`,
        columns: [
          "100 queued",
          `${count(found.herd)} queued by one user`,
          `${count(found.herd)} queued by as many users`,
        ],
        rows: [{ name: "Purser", values: found.claims }],
      },
      {
        caption: `One claim of ${FEW_CLAIMED} after a burst of due schedules, with the statistics of an idle queue, ms`,
        columns: found.due.map((due) => `${count(due)} due`),
        rows: [{ name: "Purser", values: found.bursts }],
      },
      {
        caption: `A worker's statements beside runs at work, ms`,
        columns: found.at_work.map((runs) => `${count(runs)} at work`),
        rows: [
          { name: `claim ${FEW_CLAIMED}`, values: found.beside.map(({ claim_ms }) => claim_ms) },
          { name: `renew ${FEW_CLAIMED} leases`, values: found.beside.map(({ renew_ms }) => renew_ms) },
          { name: "search for lost runs", values: found.beside.map(({ reap_ms }) => reap_ms) },
        ],
      },
      {
        caption: `A tick with ${count(SOME * (found.herd / HERD))} due, ms`,
        columns: found.schedules.map((size) => `${count(size)} schedules`),
        rows: [{ name: "Purser", values: found.ticks }],
      },
    ],
    ratios: [
      {
        of: `${count(found.herd)} due at once, all dispatched`,
        to: "1 s",
        value: late("Purser", "all_ms") / 1000,
        goal: "≤ 1",
      },
      {
        of: `${count(found.herd)} due at once, all dispatched`,
        to: "bare SQL",
        value: late("Purser", "all_ms") / late("bare SQL", "all_ms"),
        goal: "",
      },
      {
        of: `${count(found.queue)} claimed`,
        to: "bare SQL",
        value: claim_ms("Purser") / claim_ms("bare SQL"),
        goal: "≤ 2",
      },
      { of: `a claim, ${count(found.herd)} queued`, to: "100 queued", value: many / few, goal: "about 1" },
      {
        of: `a claim, ${count(found.due.at(-1) ?? 0)} due`,
        to: `${count(found.due[0] ?? 0)} due`,
        value: (found.bursts.at(-1) ?? Number.NaN) / (found.bursts[0] ?? Number.NaN),
        goal: "≤ 2",
      },
      {
        of: `a claim, ${count(found.at_work.at(-1) ?? 0)} at work`,
        to: `${count(found.at_work[0] ?? 0)}`,
        value: (found.beside.at(-1)?.claim_ms ?? Number.NaN) / (found.beside[0]?.claim_ms ?? Number.NaN),
        goal: "≤ 1.5",
      },
      {
        of: `a tick, ${count(found.schedules[1] ?? 0)} schedules`,
        to: `${count(found.schedules[0] ?? 0)}`,
        value: large / small,
        goal: "about 1",
      },
    ],
  };
}
