import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres-server.ts";
import { auditProblems, holdProblems, lostProblems, runProblems } from "./support/crash-check.ts";
import { type LoadedUser, startLoad } from "./support/crash-load.ts";
import type { Outcome } from "./support/outcome.ts";
import { printOutcome } from "./support/print.ts";
import { startServer } from "./support/processes.ts";
import {
  type BenchService,
  configure,
  createPlace,
  type Place,
  type Storage,
  startService,
} from "./support/service.ts";
import { seededRandom } from "./support/statistics.ts";

// `npm run crash -- [--kills 200 | --minutes 10] [--storage embedded|postgres] [--seed n]`: kill -9 at random moments under load, then
// what was acknowledged is compared with what is there. Exit 1 when anything does not hold.

const USERS = 4;
/** A kill comes between these after the load has begun. */
const KILL_MS = { from: 20, to: 900 };
const UPSTREAM = new URL("peers/upstream.ts", import.meta.url).pathname;

const { values: options } = parseArgs({
  options: {
    kills: { type: "string" },
    minutes: { type: "string" },
    storage: { type: "string" },
    seed: { type: "string" },
  },
});
/** On each storage: so many kills, or as many as fit into so many minutes. */
const minutes = Number(options.minutes ?? Number.POSITIVE_INFINITY);
const kills = Number(options.kills ?? (options.minutes === undefined ? 200 : Number.POSITIVE_INFINITY));
const seed = Number(options.seed ?? randomInt(2 ** 31));
const storages = (["embedded", "postgres"] as const).filter((storage) => (options.storage ?? storage) === storage);
if (!(kills > 0 && minutes > 0) || storages.length === 0)
  throw new Error("--kills and --minutes are numbers above 0, --storage is embedded or postgres");

interface Tally {
  kills: number;
  charges: number;
  top_ups: number;
  runs: number;
  problems: string[];
}

async function newUser(service: BenchService): Promise<LoadedUser> {
  const user = await service.newUser();
  const body = { name: "runner", model_id: "bench/instant", run_prompt: "Say: hello" };
  const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key: user.key, body });
  return { ...user, agent_id: id, acknowledged: { charges: new Map(), buckets: new Set(), runs: new Set() } };
}

/** Starts, loads and kills the service again and again; looks after each start at what the last kill left behind. */
async function crashAgainAndAgain(place: Place): Promise<Tally> {
  const random = seededRandom(seed);
  const tally: Tally = { kills: 0, charges: 0, top_ups: 0, runs: 0, problems: [] };
  let service = await startService(place);
  const users: LoadedUser[] = [];
  for (let index = 0; index < USERS; index += 1) users.push(await newUser(service));
  const until_ms = performance.now() + minutes * 60_000;
  while (tally.kills < kills && performance.now() < until_ms && tally.problems.length === 0) {
    const since = new Date().toISOString();
    const load = startLoad(service, users, random);
    const delay_ms = KILL_MS.from + random() * (KILL_MS.to - KILL_MS.from);
    await new Promise((resolve) => setTimeout(resolve, delay_ms));
    tally.problems.push(...(await load.end(service.kill)));
    tally.kills += 1;
    service = await startService(place);
    tally.problems.push(...(await auditProblems(service)));
    for (const user of users) {
      tally.problems.push(...(await lostProblems(service, user, since)));
      tally.charges += user.acknowledged.charges.size;
      user.acknowledged.charges.clear();
    }
    if (tally.kills % 20 === 0) console.error(`${place.storage}: ${tally.kills} kills, ${tally.charges} charges`);
  }
  for (const user of users) tally.problems.push(...(await runProblems(service, user)));
  await service.stop();
  tally.problems.push(...(await holdProblems(place)));
  tally.top_ups = users.reduce((sum, { acknowledged }) => sum + acknowledged.buckets.size, 0);
  tally.runs = users.reduce((sum, { acknowledged }) => sum + acknowledged.runs.size, 0);
  return tally;
}

async function onStorage(storage: Storage, upstream_url: string): Promise<Tally> {
  const server = storage === "postgres" ? await startPostgres() : null;
  const place = await createPlace(server);
  try {
    configure(place, upstream_url);
    place.env.PURSER_PAYMENTS = "sandbox";
    return await crashAgainAndAgain(place);
  } finally {
    await place.drop();
    await server?.stop();
  }
}

console.error(`seed ${seed}`);
const upstream = await startServer([process.execPath, UPSTREAM]);
const tallies: [Storage, Tally][] = [];
try {
  for (const storage of storages) tallies.push([storage, await onStorage(storage, upstream.url)]);
} finally {
  await upstream.stop();
}
const outcome: Outcome = {
  name: "crash",
  title: `kill -9 under load, seed ${seed}: what was acknowledged is there, and the audit is clean`,
  tables: [
    {
      caption: "after each kill and at the end",
      columns: ["kills", "charges", "top-ups", "runs", "problems"],
      rows: tallies.map(([name, { kills: done, charges, top_ups, runs, problems }]) => ({
        name,
        values: [done, charges, top_ups, runs, problems.length],
      })),
    },
  ],
  ratios: [],
};
printOutcome(outcome);
for (const [storage, { problems }] of tallies) for (const problem of problems) console.log(`${storage}: ${problem}`);
process.exitCode = tallies.some(([, { problems }]) => problems.length > 0) ? 1 : 0;
