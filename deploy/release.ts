import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";

// `npm run release -- FOLDER [--all]`: makes the files of a release from a clean checkout. Without --all it needs no
// network: the npm packages, the chart, the list of packages (SBOM), where it was built from (provenance), checksums.
// --all adds what the registry is asked for: the Debian package, with its Node.
// RELEASE_SIGNING_KEY names a private key of SSH, which signs the checksums, and so all files.

const root = join(import.meta.dirname, "..");
const { values, positionals } = parseArgs({ allowPositionals: true, options: { all: { type: "boolean" } } });
const [given] = positionals;
if (given === undefined) throw new Error("name the folder of the release: npm run release -- FOLDER");
const folder = resolve(given);
const started = new Date().toISOString();

function run(command: string, args: readonly string[], cwd = root): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
}
const digestOf = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
const packTo = (cwd: string) => run("npm", ["pack", "--silent", "--pack-destination", folder], cwd);

const changes = run("git", ["status", "--porcelain"]);
if (changes !== "") throw new Error(`a release is built from a commit, and these files differ from it:\n${changes}`);
const commit = run("git", ["rev-parse", "HEAD"]);
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
mkdirSync(folder, { recursive: true });
if (readdirSync(folder).length > 0) throw new Error(`${folder} is not empty`);

packTo(root);
packTo(join(root, "clients/typescript"));
const tarball = join(folder, `purser-${version}.tgz`);
cpSync(join(root, "dist/sbom.cdx.json"), join(folder, `purser-${version}.cdx.json`));
packChart(join(folder, `purser-chart-${version}.tgz`));
if (values.all === true) run("sh", ["deploy/deb.sh", tarball, folder]);
writeFileSync(join(folder, "provenance.json"), `${JSON.stringify(provenance(), null, 2)}\n`);
const sums = listFiles().map((file) => `${digestOf(join(folder, file))}  ${file}\n`);
writeFileSync(join(folder, "SHA256SUMS"), sums.join(""));
const key = process.env.RELEASE_SIGNING_KEY;
if (key) run("ssh-keygen", ["-q", "-Y", "sign", "-f", key, "-n", "purser-release", join(folder, "SHA256SUMS")]);
for (const file of listFiles()) console.log(join(folder, file));

function listFiles(): string[] {
  return readdirSync(folder).toSorted();
}

/** The same bytes for the same commit. */
function packChart(file: string): void {
  const date = run("git", ["log", "-1", "--format=%cI"]);
  const fixed = ["--sort=name", `--mtime=${date}`, "--owner=0", "--group=0", "--numeric-owner"];
  // The name of the folder in the archive is the chart's, as Helm packs it.
  const renamed = ["--transform=s,^helm,purser,"];
  run("tar", [...fixed, ...renamed, "--use-compress-program=gzip -n", "-cf", file, "helm"], join(root, "deploy"));
}

/** An in-toto statement with SLSA's predicate: which files, of which commit and which packages, built by whom. */
function provenance(): object {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_RUN_ID } = process.env;
  const repository = GITHUB_REPOSITORY ? `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}` : null;
  const builder = repository === null ? "local" : `${repository}/actions/runs/${GITHUB_RUN_ID}`;
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: listFiles().map((name) => ({ name, digest: { sha256: digestOf(join(folder, name)) } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "npm run release",
        externalParameters: { version, all: values.all === true },
        resolvedDependencies: [
          { uri: repository === null ? "git" : `git+${repository}`, digest: { gitCommit: commit } },
          { name: "package-lock.json", digest: { sha256: digestOf(join(root, "package-lock.json")) } },
          { name: basename(process.execPath), annotations: { version: process.version } },
        ],
      },
      runDetails: {
        builder: { id: builder },
        metadata: { startedOn: started, finishedOn: new Date().toISOString() },
      },
    },
  };
}
