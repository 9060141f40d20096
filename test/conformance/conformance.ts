import { execFile, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { parse } from "yaml";
import { REAL_PACKAGES, useRealServers } from "./real-servers.ts";
import { clientException, serverException } from "./scenarios.ts";
import { serveAgents } from "./serve-agents.ts";

// `npm run conformance [-- --side client|server|real] [--only tools_call,auth/iss,inspector] [--folder path]`: installs the MCP project's conformance
// suite and its inspector into a temporary folder, runs each scenario that a version of the protocol requires against
// Purser as a client and as a server, uses servers that people run, and prints a table. `--folder`: keep the packages there for the next time. The
// scenarios run one after the other: a busy machine makes them time out.

const { values } = parseArgs({
  options: { side: { type: "string" }, only: { type: "string" }, folder: { type: "string" } },
});
const only = (values.only ?? "").split(",");
const SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const INSPECTOR = "@modelcontextprotocol/inspector@2.12.0";
const VERSIONS = ["2025-11-25", "2026-07-28"] as const;
const TIMEOUT_MS = 120_000;
/** The suite skips a scenario at a version that does not have it. */
const NOT_APPLICABLE = "does not apply";
const CLIENT = fileURLToPath(import.meta.resolve("./client.ts"));

interface Requirements {
  client: string[];
  server: string[];
  not_scored: { scenario: string; leg: "client" | "server" }[];
}

const folder = values.folder ?? mkdtempSync(join(tmpdir(), "purser-conformance-"));
install(SUITE);
const suite = join(folder, "node_modules/@modelcontextprotocol/conformance");
const rows: string[] = [];
let is_as_expected = true;
if (values.side === undefined || values.side === "client") {
  const command = `${process.execPath} ${CLIENT}`;
  await each("client", clientException, (scenario) => ["client", "--command", command, "--scenario", scenario]);
}
if (values.side === undefined || values.side === "server") {
  const served = await serveAgents();
  await each("server", serverException, (scenario) => ["server", "--url", served.url, "--scenario", scenario]);
  await inspect(served);
  await served.stop();
}
if (values.side === undefined || values.side === "real") {
  for (const name of REAL_PACKAGES) install(name);
  for (const { name, ...outcome } of await useRealServers(folder)) {
    note({ side: "client", version: "real server", scenario: name, outcome, exception: null });
  }
}
console.log(["| side | version | scenario | outcome |", "|---|---|---|---|", ...rows].join("\n"));
if (values.folder === undefined) rmSync(folder, { recursive: true, force: true });
process.exitCode = is_as_expected ? 0 : 1;

type Side = "client" | "server";

async function each(
  side: Side,
  exceptionOf: (scenario: string) => string | null,
  argsOf: (scenario: string) => readonly string[],
): Promise<void> {
  for (const version of VERSIONS) {
    for (const scenario of scenariosOf(version, side)) {
      if (!only.some((each) => scenario.includes(each))) continue;
      const exception = exceptionOf(scenario);
      let outcome = await run(argsOf(scenario), version);
      // The suite has time limits of its own, which a busy machine exceeds.
      if (!outcome.passed && exception === null) outcome = await run(argsOf(scenario), version);
      note({ side, version, scenario, outcome, exception });
    }
  }
}

/**
 * The MCP project's inspector lists the tools and calls one, as its users do. It must not block this process, which adds
 * the key to its requests.
 */
async function inspect({ url }: { url: string }): Promise<void> {
  if (values.only !== undefined && !only.includes("inspector")) return;
  install(INSPECTOR);
  const bin = join(folder, "node_modules/.bin/mcp-inspector");
  const asked = [
    ["tools/list", [], "run_reporter"],
    ["tools/call", ["--tool-name", "run_reporter", "--tool-arg", "input=hello"], "run_id"],
  ] as const;
  for (const [method, more, wanted] of asked) {
    const args = ["--cli", url, "--transport", "http", "--method", method, ...more];
    const { stdout, stderr } = await promisify(execFile)(bin, args, { timeout: TIMEOUT_MS, cwd: folder }).catch(
      (error: Error & { stdout: string; stderr: string }) => error,
    );
    const passed = stdout.includes(wanted);
    if (!passed) console.error(stdout, stderr);
    note({
      side: "server",
      version: INSPECTOR,
      scenario: method,
      outcome: { text: "inspector", passed },
      exception: null,
    });
  }
}

function install(name: string): void {
  mkdirSync(folder, { recursive: true });
  if (!existsSync(join(folder, "package.json"))) writeFileSync(join(folder, "package.json"), '{"private": true}');
  const args = ["install", "--no-audit", "--no-fund", "--loglevel=error", name];
  const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8", timeout: 300_000 });
  if (status !== 0) throw new Error(`${name} could not be installed: ${stderr.trim()}`);
}

function scenariosOf(version: string, side: Side): string[] {
  const required: Requirements = parse(readFileSync(join(suite, `requirements/${version}.yaml`), "utf8"));
  const others = required.not_scored.filter(({ leg }) => leg === side).map(({ scenario }) => scenario);
  return [...required[side], ...others];
}

/** `passed/checks` of one scenario, and whether it passed. */
function run(args: readonly string[], version: string): Promise<{ text: string; passed: boolean }> {
  return new Promise((resolve) => {
    // The suite skips these extensions at any version that is named.
    const is_extension = args.some((each) => /^(auth\/(client-cred|dpop|enterprise|wif)|tasks-)/.test(each));
    const at_version = is_extension ? [] : ["--spec-version", version];
    const more = [...at_version, ...(args[0] === "client" ? ["--timeout", "60000"] : [])];
    const child = spawn(process.execPath, [join(suite, "dist/index.js"), ...args, ...more], { cwd: folder });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (text += bytes));
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    child.on("close", (code) => {
      clearTimeout(timer);
      const [, checks] = /Passed: (\d+\/\d+)/.exec(text) ?? [];
      resolve({ text: checks ?? (code === 0 ? NOT_APPLICABLE : "no result"), passed: code === 0 });
    });
  });
}

/** A scenario with a reason may fail; one that passes in spite of its reason has a reason that is out of date. */
function note(each: {
  side: string;
  version: string;
  scenario: string;
  outcome: { text: string; passed: boolean };
  exception: string | null;
}): void {
  const { side, version, scenario, outcome, exception } = each;
  const is_expected = outcome.passed || exception !== null;
  is_as_expected &&= is_expected;
  const passed = outcome.text === NOT_APPLICABLE ? "at another version" : `passes (${outcome.text})`;
  const failed = is_expected ? `not passed: ${exception}` : "FAILED";
  rows.push(`| ${side} | ${version} | ${scenario} | ${outcome.passed ? passed : `${failed} (${outcome.text})`} |`);
  console.error(rows.at(-1));
}
