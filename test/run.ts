import { spawn, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { chromiumBinary } from "./support/chromium.ts";
import { postgresBinaries } from "./support/postgres-server.ts";
import { COMPILE_CACHE, FLAGS } from "./support/process.ts";

// `npm test` and `npm run journeys`, on embedded storage, on PostgreSQL if its server binaries are installed, and with the
// console's journeys if Chromium is installed. Vitest gets the arguments; `--project` chooses among the projects.

/** What runs without arguments. The journeys take longer than all of it: they start, kill and upgrade whole programs. */
const SUITE = ["test/api", "test/attacks", "test/properties", "test/tidy", "test/unit"];
const projects = ["unit", "tidy", "embedded"];
if (postgresBinaries() !== null) {
  projects.push("postgres");
} else if (process.env.CI !== undefined) {
  process.stderr.write(
    "CI must test on PostgreSQL too: install its server binaries (Debian: apt-get install postgresql)\n",
  );
  process.exit(1);
} else {
  process.stderr.write("No PostgreSQL server binaries here: most tests of test/api are left out.\n");
}
if (chromiumBinary() !== null) {
  projects.push("console");
} else if (process.env.CI !== undefined) {
  process.stderr.write("CI must test the console too: install Chromium (Debian: apt-get install chromium)\n");
  process.exit(1);
} else {
  process.stderr.write("No Chromium here: the console's journeys are left out.\n");
}
// Vitest loads each test file by a new name in each run. Without this, the cache would grow with each run.
rmSync(COMPILE_CACHE, { recursive: true, force: true });
// While Vitest starts, one process compiles the service's modules, so that the many others do not.
const caching = { stdio: "ignore", env: { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE } } as const;
spawn(process.execPath, [...FLAGS, "--import", "./src/app/app.ts", "--eval", "process.exit()"], caching);
const vitest = join(import.meta.dirname, "../node_modules/vitest/vitest.mjs");
const named = process.argv.slice(2);
const given = named.length > 0 ? named : SUITE;
// Vitest runs every project that is named, so all of them may be named only if the caller names none.
const names_projects = given.some((argument) => /^--project(=|$)/.test(argument));
const all = names_projects ? [] : projects.map((name) => `--project=${name}`);
const args = [...FLAGS, vitest, "run", ...all, ...given];
const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
process.exit(status ?? 1);
