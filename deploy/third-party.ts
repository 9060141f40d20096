import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Another project's package in a build, with the texts of its licence. */
export interface ThirdParty {
  name: string;
  version: string;
  license: string;
  texts: readonly string[];
}

/** The licences under which a package may be part of Purser's. */
const ALLOWED = new Set([
  "0BSD",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "CC0-1.0",
  "ISC",
  "MIT",
  "MIT-0",
  "OFL-1.1",
  "(MIT AND Zlib)",
]);

/** The package's folder in node_modules that a file belongs to. Null: the file is Purser's own. */
export function packageFolder(file: string): string | null {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0] ?? null;
}

export function readThirdParty(folder: string): ThirdParty {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const is_allowed = license !== undefined && ALLOWED.has(license);
  if (!is_allowed)
    throw new Error(`${name} ${version} has the licence ${license}: deploy/third-party.ts allows others only`);
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)\b/i.test(file));
  return { name, version, license, texts: files.map((file) => readFileSync(join(folder, file), "utf8").trim()) };
}

/** One text for all packages with the same licence and the same words. */
export function thirdPartyText(packages: readonly ThirdParty[]): string {
  const list = packages.map(({ name, version, license }) => `- ${name} ${version}: ${license}`);
  const groups = Map.groupBy(
    packages.flatMap(({ name, texts }) => texts.map((text) => ({ name, text }))),
    ({ text }) => text,
  );
  const texts = [...groups].map(([text, of]) => `## ${of.map(({ name }) => name).join(", ")}\n\n${text}`);
  return `# Third-party packages\n\nThis build contains or installs:\n\n${list.join("\n")}\n\n${texts.join("\n\n")}\n`;
}

/** The software bill of materials in the format of CycloneDX. */
export function billOfMaterials(version: string, packages: readonly ThirdParty[]): object {
  const component = (name: string, of_version: string, license: string) => ({
    type: "library",
    "bom-ref": `pkg:npm/${name.replace("@", "%40")}@${of_version}`,
    purl: `pkg:npm/${name.replace("@", "%40")}@${of_version}`,
    name,
    version: of_version,
    licenses: [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }],
  });
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: { ...component("purser", version, "Apache-2.0"), type: "application" } },
    components: packages.map(({ name, version: of, license }) => component(name, of, license)),
  };
}
