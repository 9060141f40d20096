import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres-server.ts";
import { type CrashReport, crashRun } from "./crash/crash-run.ts";
import { printOutcome } from "./support/print.ts";
import { createPlace, type Storage } from "./support/service.ts";

// `npm run crash -- [--kills 200 | --minutes 10] [--storage embedded|postgres] [--seed n]`: kill -9 at random moments
// under load, then compares acknowledged data with stored data. Exits with 1 on any violation.

const USERS = 4;
const CALLERS_PER_USER = 4;
const LIFE_MS = { least: 0, most: 900 };
const TOLD_EVERY = 20;

const { values: options } = parseArgs({
  options: {
    kills: { type: "string" },
    minutes: { type: "string" },
    storage: { type: "string" },
    seed: { type: "string" },
  },
});
/** The number of kills per storage, or the minutes to kill for. */
const minutes = Number(options.minutes ?? Number.POSITIVE_INFINITY);
const most_kills = Number(options.kills ?? (options.minutes === undefined ? 200 : Number.POSITIVE_INFINITY));
const seed = Number(options.seed ?? randomInt(2 ** 31));
const storages = (["embedded", "postgres"] as const).filter((storage) => (options.storage ?? storage) === storage);
if (!(most_kills > 0 && minutes > 0) || storages.length === 0)
  throw new Error("--kills and --minutes are numbers above 0, --storage is embedded or postgres");

async function onStorage(storage: Storage): Promise<CrashReport> {
  const server = storage === "postgres" ? await startPostgres() : null;
  const place = await createPlace(server);
  const until_ms = performance.now() + minutes * 60_000;
  try {
    return await crashRun(place, {
      seed,
      users: USERS,
      callers_per_user: CALLERS_PER_USER,
      life_ms: LIFE_MS,
      goOn(kills) {
        if (kills > 0 && kills % TOLD_EVERY === 0) console.error(`${storage}: ${kills} kills`);
        return kills < most_kills && performance.now() < until_ms;
      },
    });
  } finally {
    await place.drop();
    await server?.stop();
  }
}

console.error(`seed ${seed}`);
const reports: [Storage, CrashReport][] = [];
for (const storage of storages) reports.push([storage, await onStorage(storage)]);
printOutcome({
  name: "crash",
  title: `kill -9 under load, seed ${seed}: what was acknowledged is there, and the audit is clean`,
  tables: [
    {
      caption: "after each kill and at the end",
      columns: ["kills", "charges", "calls cut off", "top-ups", "runs", "violations"],
      rows: reports.map(([name, { kills, acknowledged, cut_off, top_ups, runs, violations }]) => ({
        name,
        values: [kills, acknowledged, cut_off, top_ups, runs, violations.length],
      })),
    },
  ],
  ratios: [],
});
for (const [storage, { violations }] of reports) for (const each of violations) console.log(`${storage}: ${each}`);
process.exitCode = reports.some(([, { violations }]) => violations.length > 0) ? 1 : 0;
