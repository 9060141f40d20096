import { createHash } from "node:crypto";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Builds the console into console/dist if its sources have changed. `npm ci` runs it, and `npm start` and `npm run demo`
 * too, because some systems skip install scripts. A failure is reported and does not stop the start: the API works
 * without the console. `--or-fail` stops a build of the package.
 */
const folder = import.meta.dirname;
const root = join(folder, "..");
const stamp = join(folder, "dist/.built-from");
/** The service's files whose code is in the bundle. The console imports only types from all others. */
const OF_THE_SERVICE = [
  "src/account/billing/currency.ts",
  "src/kernel/constants.ts",
  "src/platform/lib/instant.ts",
  "src/account/ledger/csv.ts",
  "src/agents/definitions/run-csv.ts",
  "src/agents/schedules/spec.ts",
  "src/agents/schedules/cron.ts",
];

function sources(): string {
  const patterns = ["console/{src,public}/**/*.*", "console/*.{html,ts}"];
  const files = ["package-lock.json", ...OF_THE_SERVICE, ...globSync(patterns, { cwd: root })].sort();
  const hash = createHash("sha256");
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update("\0");
  return hash.digest("hex");
}

function builtFrom(): string | null {
  try {
    return readFileSync(stamp, "utf8");
  } catch {
    return null;
  }
}

try {
  const wanted = sources();
  if (builtFrom() !== wanted) {
    // A test may build too. Its build must be the production build.
    process.env.NODE_ENV = "production";
    const { build } = await import("vite");
    await build({ configFile: join(folder, "vite.config.ts"), logLevel: "error" });
    writeFileSync(stamp, wanted);
  }
} catch (error) {
  process.stderr.write(`The console could not be built: ${error instanceof Error ? error.message : String(error)}\n`);
  if (process.argv.includes("--or-fail")) process.exit(1);
}
