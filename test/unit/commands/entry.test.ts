import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { transform } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const bin = join(import.meta.dirname, "../../../bin");

describe("bin/purser", () => {
  let root: string;
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "purser-entry-"));
    cpSync(bin, join(root, "package/bin"), { recursive: true });
    mkdirSync(join(root, "package/dist"));
    writeFileSync(join(root, "package/package.json"), '{ "type": "module" }');
    writeFileSync(join(root, "package/dist/purser.js"), 'console.log("started", ...process.argv.slice(2));');
  });
  afterAll(() => rmSync(root, { recursive: true }));

  /** Runs the entry as a Node of this version and system would see it. */
  function runAs(versions: { node: string }, platform = "linux") {
    const faked = join(root, "faked.cjs");
    writeFileSync(
      faked,
      `if (!process.env.FAKED) {
        process.env.FAKED = "1";
        Object.defineProperty(process, "versions", { value: ${JSON.stringify(versions)} });
        Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
      }`,
    );
    const args = ["--require", faked, join(root, "package/bin/purser"), "audit", "--help"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", env: {} });
    return { status, stdout, stderr };
  }

  it("starts the command on Node 26 and later", () => {
    for (const node of ["26.0.0", "28.1.0"])
      expect(runAs({ node })).toEqual({ status: 0, stdout: "started audit --help\n", stderr: "" });
  });

  it.each(["20.20.2", "24.11.0"])("says on Node %s in one sentence which Node is needed, for every command", (node) => {
    const { status, stdout, stderr } = runAs({ node });
    expect([status, stdout]).toEqual([2, ""]);
    expect(stderr).toBe(
      `Purser needs Node 26 or newer, and this is Node ${node}: install it from https://nodejs.org, or let npm fetch it: npx -p node@26 -p purser purser audit --help\n`,
    );
  });

  it("runs with the Node that npm installed beside it where the own one is too old, and says why", () => {
    mkdirSync(join(root, ".bin"));
    symlinkSync(process.execPath, join(root, ".bin/node"));
    const { status, stdout, stderr } = runAs({ node: "20.20.2" });
    rmSync(join(root, ".bin"), { recursive: true });
    expect([status, stdout]).toEqual([0, "started audit --help\n"]);
    expect(stderr).toMatch(/^purser: Node 20\.20\.2 is too old, using .*\/\.bin\/node\n$/);
  });

  it("names WSL on Windows", () => {
    const { status, stderr } = runAs({ node: "26.10.0" }, "win32");
    expect([status, stderr]).toEqual([2, expect.stringContaining("WSL")]);
  });

  it("is written in the syntax of ES5, which every Node reads", async () => {
    const source = readFileSync(join(bin, "purser"), "utf8");
    const [old, present] = await Promise.all([transform(source, { target: "es5" }), transform(source)]);
    expect(old.code).toBe(present.code);
  });
});
