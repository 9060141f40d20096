import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres-server.ts";
import { crashRun } from "./crash/crash-run.ts";
import { createPlace, type Storage } from "./support/service.ts";

// `npm run crash -- [--minutes 10] [--seed 1] [--storage embedded|postgres|both]`: kill -9 under load, over and over.
// Exit code 1 when anything that was acknowledged is missing, wrong or there twice.

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
    storage: { type: "string", default: "both" },
  },
});
const storages: Storage[] = values.storage === "both" ? ["embedded", "postgres"] : [values.storage as Storage];
const minutes = Number(values.minutes) / storages.length;

for (const storage of storages) {
  const server = storage === "postgres" ? await startPostgres() : null;
  const place = await createPlace(server);
  const deadline_ms = performance.now() + minutes * 60_000;
  const report = await crashRun(place, {
    seed: Number(values.seed),
    users: 4,
    callers_per_user: 8,
    life_ms: { least: 100, most: 4_000 },
    goOn: () => performance.now() < deadline_ms,
  });
  await place.drop();
  await server?.stop();
  console.log(JSON.stringify({ storage, ...report, violations: report.violations.length }));
  for (const violation of report.violations) console.error(violation);
  if (report.violations.length > 0) process.exitCode = 1;
}
