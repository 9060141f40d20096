import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

// `npm run release` in a clean clone, without the registry.

const root = join(import.meta.dirname, "../..");
const BUILD_MS = 300_000;

let folder: string;
let clone: string;
let out: string;
const key = () => join(folder, "key");
const run = (command: string, args: string[], options: { cwd?: string; input?: string } = {}) =>
  execFileSync(command, args, {
    cwd: options.cwd ?? out,
    input: options.input ?? "",
    encoding: "utf8",
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, RELEASE_SIGNING_KEY: key(), npm_config_offline: "true" },
  });
const release = () => run("node", ["deploy/release.ts", out], { cwd: clone });

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "purser-release-"));
  clone = join(folder, "clone");
  out = join(folder, "out");
  run("git", ["clone", "--quiet", root, clone], { cwd: folder });
  for (const packages of ["node_modules", "clients/typescript/node_modules"])
    symlinkSync(join(root, packages), join(clone, packages));
  run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key()], { cwd: folder });
  release();
}, BUILD_MS);
afterAll(() => rmSync(folder, { recursive: true }));

describe("the files of a release", () => {
  it("are the packages, their list, the provenance and the signed checksums, as SECURITY.md checks them", () => {
    const { version } = JSON.parse(readFileSync(join(clone, "package.json"), "utf8"));
    expect(readdirSync(out).toSorted()).toEqual(
      [
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "provenance.json",
        `purser-${version}.cdx.json`,
        `purser-${version}.tgz`,
        `purser-chart-${version}.tgz`,
        `purser-client-${version}.tgz`,
      ].toSorted(),
    );
    writeFileSync(join(folder, "allowed_signers"), `releases@purser ${readFileSync(`${key()}.pub`, "utf8")}`);
    const block =
      /```\n(ssh-keygen -Y verify[\s\S]*?)```/.exec(readFileSync(join(root, "SECURITY.md"), "utf8"))?.[1] ?? "";
    const checked = run("bash", ["-euc", block.replace("allowed_signers", "../allowed_signers")]);
    expect(checked).toMatch(/^Good "purser-release" signature for releases@purser/);
    expect(checked.match(/: OK$/gm)).toHaveLength(5);
  });

  it("have a provenance with the digest of each package, the commit and the locked packages", () => {
    const { subject, predicate } = JSON.parse(readFileSync(join(out, "provenance.json"), "utf8"));
    const digest = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
    for (const { name, digest: named } of subject) expect(named.sha256).toBe(digest(join(out, name)));
    expect(subject).toHaveLength(4);
    expect(predicate.buildDefinition.resolvedDependencies).toMatchObject([
      { digest: { gitCommit: run("git", ["rev-parse", "HEAD"], { cwd: clone }).trim() } },
      { name: "package-lock.json", digest: { sha256: digest(join(clone, "package-lock.json")) } },
      { name: "node" },
    ]);
  });

  it("are not made from changed files", () => {
    writeFileSync(join(clone, "README.md"), "changed");
    expect(release).toThrow("a release is built from a commit");
  });
});
