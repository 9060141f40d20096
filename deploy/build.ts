import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build, type Metafile, type Plugin } from "esbuild";
import { openEmbedded } from "../src/platform/db/embedded.adapter.ts";
import { packDatabase } from "../src/platform/db/prepared-database.ts";
import { RELEASE } from "../src/platform/lib/release.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { billOfMaterials, packageFolder, readThirdParty, thirdPartyText } from "./third-party.ts";

/**
 * Builds what the npm package contains: the console, and `dist` with the JavaScript of `src` and its libraries, the files
 * beside it, a prepared database and the lists of other projects' packages. `npm pack` runs it.
 */
const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");

/** Installed beside Purser, because it reads files of its own: PostgreSQL as WebAssembly. */
const INSTALLED = "@electric-sql/pglite";
/** Of the console's style sheets, whose packages Vite does not list. */
const IN_STYLES = ["@fontsource-variable/geist", "tailwindcss"];

/** Programs and what they share are all directly in `dist`. The folder of a source file is the same one below `dist`. */
const foldersBelowDist: Plugin = {
  name: "folders below dist",
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
      const folder = relative(join(root, "src"), dirname(path));
      const contents = readFileSync(path, "utf8").replaceAll(
        "import.meta.dirname",
        `(import.meta.dirname + "/${folder}")`,
      );
      return { contents, loader: "ts" };
    });
  },
};

async function bundle(): Promise<Metafile> {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["src/cli/purser.ts", ...globSync("src/**/*.worker.ts", { cwd: root })],
    outdir: "dist",
    entryNames: "[name]",
    bundle: true,
    splitting: true,
    external: [INSTALLED, "pg-native"],
    platform: "node",
    target: "node26",
    format: "esm",
    // Libraries in CommonJS load Node's modules by `require`.
    banner: { js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` },
    minifySyntax: true,
    minifyWhitespace: true,
    keepNames: true,
    sourcemap: true,
    sourcesContent: false,
    legalComments: "none",
    plugins: [foldersBelowDist],
    metafile: true,
    logLevel: "warning",
  });
  return metafile;
}

function copyFiles(): void {
  for (const file of globSync("src/**/*.{sql,txt,json}", { cwd: root })) {
    const copy = join(root, file.replace(/^src/, "dist"));
    mkdirSync(dirname(copy), { recursive: true });
    cpSync(join(root, file), copy);
  }
}

async function prepareDatabase(): Promise<void> {
  const directory = mkdtempSync(join(dist, "database-"));
  const db = await openEmbedded({ directory, log: createLog("warn") });
  await db.close();
  const folder = join(dist, "platform/db");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "prepared-database.zst"), packDatabase(join(directory, "pgdata")));
  rmSync(directory, { recursive: true });
}

function listThirdParty({ outputs }: Metafile): void {
  const files = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const console_packages: { name: string }[] = JSON.parse(
    readFileSync(join(root, "console/dist/licenses.json"), "utf8"),
  );
  const named = [INSTALLED, ...IN_STYLES, ...console_packages.map(({ name }) => name)];
  const folders = new Set([
    ...files.flatMap((file) => packageFolder(file) ?? []),
    ...named.map((name) => `node_modules/${name}`),
  ]);
  const packages = [...folders].map((folder) => readThirdParty(join(root, folder)));
  packages.sort((one, other) => (one.name < other.name ? -1 : 1));
  writeFileSync(join(dist, "THIRD-PARTY.md"), thirdPartyText(packages));
  writeFileSync(join(dist, "sbom.cdx.json"), JSON.stringify(billOfMaterials(RELEASE, packages), null, 1));
}

rmSync(dist, { recursive: true, force: true });
const { status } = spawnSync(process.execPath, ["console/build.ts", "--or-fail"], { cwd: root, stdio: "inherit" });
if (status !== 0) throw new Error("the console could not be built");
const metafile = await bundle();
copyFiles();
await prepareDatabase();
listThirdParty(metafile);
// The database's thread has ended; libraries keep no work.
process.exit(0);
