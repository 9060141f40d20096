import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres-server.ts";
import { killRun } from "./kill-workers/kill-run.ts";
import { printOutcome } from "./support/print.ts";
import { createPlace } from "./support/service.ts";
import { percentile } from "./support/statistics.ts";

// `npm run kill -- [--minutes 2] [--storage postgres|embedded] [--workers 3] [--api] [--seed n]`: kill -9 at random
// moments during runs of several steps: by hand, by triggers and by schedules, and some that wait for a person's
// decision. Then it compares the requests, the decisions, the calls that the model and the webhook receiver saw, and
// the service's records. `--api` also kills the API node. Exits with 1 on any violation.

const ERRANDS_PER_SECOND = 4;
/** The most violations that are printed. */
const MOST_TOLD = 20;

const { values: options } = parseArgs({
  options: {
    minutes: { type: "string", default: "2" },
    storage: { type: "string", default: "postgres" },
    workers: { type: "string", default: "3" },
    api: { type: "boolean", default: false },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
  },
});
const { storage, api: kill_api } = options;
const [minutes, workers, seed] = [Number(options.minutes), Number(options.workers), Number(options.seed)];
if (!(minutes > 0 && workers > 0 && seed >= 0) || (storage !== "postgres" && storage !== "embedded"))
  throw new Error("--minutes and --workers are numbers above 0, --seed is a number, --storage is postgres or embedded");

console.error(`seed ${seed}`);
const server = storage === "postgres" ? await startPostgres() : null;
const place = await createPlace(server);
try {
  const report = await killRun(place, {
    seed,
    for_ms: minutes * 60_000,
    least_kills: 1,
    workers,
    kill_api,
    errands: Math.ceil(minutes * 60 * ERRANDS_PER_SECOND),
    routines: 20,
    due_ms: 5_000,
    // The only node of embedded storage must have time to start and to make progress.
    kill_ms: storage === "postgres" ? { least: 200, most: 2_000 } : { least: 200, most: 4_000 },
    leases: "wait",
  });
  const { recovery_ms, violations } = report;
  const recovery_s = (at: number) => percentile(recovery_ms, at) / 1_000;
  printOutcome({
    name: "kill",
    title: `kill -9 of nodes with runs at work, ${storage}, seed ${seed}`,
    tables: [
      {
        caption: "what was done",
        columns: [
          "kills",
          "runs",
          "by triggers",
          "due instants",
          "model calls",
          "made again",
          "webhooks",
          "sent again",
          "contacts",
          "results",
          "sent again",
          "approvals",
          "budgets",
          "given up",
          "holds left",
        ],
        rows: [
          {
            name: storage,
            values: [
              report.kills,
              report.runs,
              report.hooked,
              report.occurrences,
              report.calls,
              report.calls_again,
              report.webhooks,
              report.webhooks_again,
              report.contacts,
              report.results,
              report.results_again,
              report.approvals,
              report.budgets,
              report.given_up,
              report.open_holds,
            ],
          },
        ],
      },
      {
        caption: "seconds from a kill until a run of the dead node goes on",
        columns: ["runs", "p50", "p99", "max"],
        rows: [{ name: storage, values: [recovery_ms.length, recovery_s(0.5), recovery_s(0.99), recovery_s(1)] }],
      },
    ],
    ratios: [],
  });
  for (const violation of violations.slice(0, MOST_TOLD)) console.log(violation);
  console.log(violations.length === 0 ? "no violations" : `${violations.length} violations; again: --seed ${seed}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
} finally {
  await place.drop();
  await server?.stop();
}
