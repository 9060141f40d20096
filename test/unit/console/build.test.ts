import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
/** Imports and re-exports of values. The bundle has no imports of types. */
const VALUE_IMPORT = /^(?:import|export) (?!type\b)[^;]*?from "(\.[^"]+)";/gm;

/** The service's files that the import of a file adds to the bundle. */
function bundledBy(file: string, seen = new Set<string>()): Set<string> {
  for (const [, path = ""] of readFileSync(join(ROOT, file), "utf8").matchAll(VALUE_IMPORT)) {
    const imported = relative(ROOT, join(ROOT, dirname(file), path));
    if (!imported.startsWith("src/") || seen.has(imported)) continue;
    seen.add(imported);
    bundledBy(imported, seen);
  }
  return seen;
}

const bundled = new Set(globSync("console/src/**/*.{ts,tsx}", { cwd: ROOT }).flatMap((file) => [...bundledBy(file)]));

test("the console is built again if any file of the service in its bundle has changed", () => {
  const build = readFileSync(join(ROOT, "console/build.ts"), "utf8");
  expect(bundled).toContain("src/kernel/constants.ts");
  expect([...bundled].filter((file) => !build.includes(`"${file}"`))).toEqual([]);
});

test("the service's files in the console's bundle need no modules of Node, which a browser does not have", () => {
  for (const file of bundled) expect(readFileSync(join(ROOT, file), "utf8"), file).not.toMatch(/ from "node:/);
});
