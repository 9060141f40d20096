import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { billOfMaterials, packageFolder, readThirdParty, thirdPartyText } from "../../../deploy/third-party.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "purser-third-party-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function newPackage(name: string, license: string | undefined, files: Record<string, string> = {}): string {
  const place = join(folder, name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "package.json"), JSON.stringify({ name, version: "1.2.3", license }));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(place, file), text);
  return place;
}

it.each([
  ["node_modules/pg/lib/client.js", "node_modules/pg"],
  ["node_modules/@ai-sdk/openai/dist/index.mjs", "node_modules/@ai-sdk/openai"],
  ["node_modules/one/node_modules/@two/three/index.js", "node_modules/one/node_modules/@two/three"],
  ["src/cli/purser.ts", null],
])("the bundled file %s belongs to the package in %s", (file, expected) => {
  expect(packageFolder(file)).toBe(expected);
});

it("the list of a build names each package with its licence, and its texts and notices once", () => {
  const mit = { LICENSE: "Permission is hereby granted" };
  const packages = [
    newPackage("one", "MIT", mit),
    newPackage("@scope/two", "MIT", mit),
    newPackage("three", "Apache-2.0", { "LICENSE.md": "Apache", NOTICE: "By Three" }),
  ].map(readThirdParty);
  const text = thirdPartyText(packages);
  for (const line of ["- one 1.2.3: MIT", "- @scope/two 1.2.3: MIT", "- three 1.2.3: Apache-2.0", "By Three"])
    expect(text).toContain(line);
  expect(text.match(/Permission is hereby granted/g)).toHaveLength(1);
  expect(billOfMaterials("9.9.9", packages)).toMatchObject({
    bomFormat: "CycloneDX",
    metadata: { component: { name: "purser", version: "9.9.9" } },
    components: [{ purl: "pkg:npm/one@1.2.3" }, { purl: "pkg:npm/%40scope/two@1.2.3" }, { name: "three" }],
  });
});

it.each(["GPL-3.0", undefined])("a package with the licence %s stops the build", (license) => {
  const place = newPackage(`other-${license}`, license);
  expect(() => readThirdParty(place)).toThrow(`has the licence ${license}`);
});
