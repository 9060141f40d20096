import { createHash } from "node:crypto";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Builds the console into console/dist, unless what is there was built from the same sources. `npm ci` does it, and
 * `npm start` and `npm run demo` do where that was not allowed. A failure is told and hinders nothing else: without the
 * console there is still the API.
 */
const folder = import.meta.dirname;
const root = join(folder, "..");
const stamp = join(folder, "dist/.built-from");

function sources(): string {
  const patterns = ["console/{src,public}/**/*.*", "console/*.{html,ts}", "src/schedules/next-run.ts"];
  const files = ["package-lock.json", ...globSync(patterns, { cwd: root })].sort();
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
    // whoever builds, a test as well, gets React as it is for use
    process.env.NODE_ENV = "production";
    const { build } = await import("vite");
    await build({ configFile: join(folder, "vite.config.ts"), logLevel: "error" });
    writeFileSync(stamp, wanted);
  }
} catch (error) {
  process.stderr.write(`The console could not be built: ${error instanceof Error ? error.message : String(error)}\n`);
}
