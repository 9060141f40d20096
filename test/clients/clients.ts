import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { openAiVectors } from "../support/embeddings.ts";
import { startProcess } from "../support/process.ts";
import {
  calling,
  completion,
  cut,
  delta,
  type Reply,
  startUpstream,
  type UpstreamRequest,
} from "../support/upstream.ts";
import { type Place, PROGRAMS, type Program } from "./programs.ts";

// `npm run clients [-- --only codex] [--folder path]`: installs real programs into a temporary folder, runs each against
// Purser over a scripted upstream, and prints a table. `--folder`: keep the packages there for the next time.

const { values } = parseArgs({ options: { only: { type: "string" }, folder: { type: "string" } } });
const MODEL = "lab/plain";
const ADMIN = "operator-key-of-the-clients";
const TIMEOUT_MS = 120_000;
const ANSWER = "hello from upstream";
/** The task of the agent that MCP clients run, and its answer. */
const TASK = "Report the berths.";
const REPORT = "berth 7 is free";
const CASES = ["stream", "tool call", "usage", "402", "cut stream"] as const;
type Case = (typeof CASES)[number];

interface Outcome {
  code: number | null;
  text: string;
  ms: number;
}

const folder = values.folder ?? mkdtempSync(join(tmpdir(), "purser-clients-"));
const programs = PROGRAMS.filter(({ name }) => name.toLowerCase().includes((values.only ?? "").toLowerCase()));
const upstream = await startUpstream();
upstream.answer(scripted);
const data_dir = mkdtempSync(join(tmpdir(), "purser-clients-data-"));
const service = startProcess({
  ...settings(),
  DATA_DIR: data_dir,
  PORT: "0",
  PURSER_ADMIN_KEY: ADMIN,
  LAB_KEY: "sk-lab",
});
const url = await service.listening;
const rows: string[][] = [];
for (const program of programs) rows.push([program.name, ...(await tried(program))]);
console.log(table([["program", ...CASES], ...rows]));
service.signal("SIGTERM");
await service.ended;
await upstream.close();
rmSync(data_dir, { recursive: true, force: true });
if (values.folder === undefined) rmSync(folder, { recursive: true, force: true });
process.exitCode = rows.flat().some((cell) => cell.includes("FAILED")) ? 1 : 0;

/** The upstream chooses its answer by the prompt, because programs also make calls of their own. */
async function scripted(...[response, request]: Parameters<Reply>): Promise<void> {
  if (request.path.endsWith("/embeddings")) return openAiVectors()(response, request);
  const text = JSON.stringify(request.body?.messages ?? []);
  const results = (request.body?.messages ?? []).filter(({ role }: { role: string }) => role === "tool");
  if (text.includes(TASK)) return completion(REPORT)(response, request);
  if (text.includes("RUN the reporter") && results.length === 0) {
    const names = toolNames(request);
    const tool = names.find((name) => name.includes("run_reporter"));
    const answer = tool === undefined ? completion(`no tool of the reporter: ${names.join()}`) : calling(tool, {});
    return answer(response, request);
  }
  if (text.includes("CUT")) return cut(delta("some words"))(response, request);
  if (text.includes("CALL") && results.length === 0) {
    const [name, given] = toolOf(request);
    if (name !== null) return calling(name, given)(response, request);
  }
  if (results.length > 0) {
    if (JSON.stringify(results).includes(REPORT)) return completion(`It says: ${REPORT}`)(response, request);
    const ran = JSON.stringify(results).includes("tool-ran");
    return completion(ran ? "the tool-ran" : "the tool failed")(response, request);
  }
  return completion(ANSWER)(response, request);
}

function toolNames({ body }: UpstreamRequest): string[] {
  return (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name);
}

function toolOf(request: UpstreamRequest): [name: string | null, given: unknown] {
  const names = toolNames(request);
  const has = (name: string) => names.includes(name);
  const command = "echo tool-ran";
  if (has("weather")) return ["weather", { city: "Oslo" }];
  if (has("exec_command")) return ["exec_command", { cmd: command }];
  if (has("shell")) return ["shell", { command: ["bash", "-lc", command] }];
  if (has("Bash")) return ["Bash", { command, description: "says so" }];
  return has("bash") ? ["bash", { command, description: "says so" }] : [null, null];
}

function settings(): Record<string, string> {
  const file = join(folder, "purser.json");
  mkdirSync(folder, { recursive: true });
  const model = { id: MODEL, provider: "lab", provider_model: "plain", name: "Lab", input_rate: 1, output_rate: 2 };
  const limits = { trial_eligible: true, context_window: 400_000, max_output_tokens: 8_192, supports: { tools: true } };
  const provider = { name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "LAB_KEY" };
  const vectors = { id: "lab/vectors", kind: "embedding", provider: "lab", provider_model: "vectors", input_rate: 1 };
  const models = [
    { ...model, ...limits },
    { ...vectors, context_window: 8_192 },
  ];
  writeFileSync(file, JSON.stringify({ providers: [provider], models }));
  return { PURSER_CONFIG: file, LOG_LEVEL: "silent" };
}

async function newUser(tokens: number): Promise<{ id: string; key: string }> {
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${ADMIN}`, "Content-Type": "application/json", Connection: "close" };
    return (
      await fetch(`${url}/api/v1/admin/users${path}`, { method: "POST", headers, body: JSON.stringify(body) })
    ).json();
  };
  const { user, api_key } = await post("", { email: `user${Math.random()}@example.com`, trial: false });
  if (tokens > 0) await post(`/${user.id}/grants`, { amount_tokens: tokens, source: "top_up" });
  return { id: user.id, key: api_key.key };
}

/** The charges of a key, when no tokens are held. */
async function charged(key: string): Promise<number> {
  for (let left = 100; left > 0; left -= 1) {
    const me = (await (
      await fetch(`${url}/api/v1/users/me`, { headers: { "x-api-key": key, Connection: "close" } })
    ).json()) as {
      balance: { held: number; available: number };
    };
    if (me.balance.held === 0) return 100_000_000 - me.balance.available;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return Number.NaN;
}

function installed({ packages }: Program): string | null {
  if (packages.every(isInstalled)) return null;
  if (!existsSync(join(folder, "package.json"))) writeFileSync(join(folder, "package.json"), '{"private": true}');
  const args = ["install", "--no-audit", "--no-fund", "--loglevel=error", ...packages];
  const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8", timeout: 300_000 });
  return status === 0 ? null : (stderr.trim().split("\n").at(0) ?? "npm failed");
}

/** Whether the folder has exactly this `name@version`. */
function isInstalled(package_name: string): boolean {
  const at = package_name.lastIndexOf("@");
  const file = join(folder, "node_modules", package_name.slice(0, at), "package.json");
  return existsSync(file) && JSON.parse(readFileSync(file, "utf8")).version === package_name.slice(at + 1);
}

function run({ command }: Program, place: Place, prompt: string): Promise<Outcome> {
  const home = mkdtempSync(join(tmpdir(), "purser-home-"));
  const { args, env, files = {} } = command(place, prompt);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), content);
  }
  const [name = "", ...rest] = args;
  const bin = join(folder, "node_modules/.bin");
  // Programs reach only loopback: the proxy for all other addresses is a closed port.
  const closed = "http://127.0.0.1:9";
  const proxy = {
    HTTP_PROXY: closed,
    HTTPS_PROXY: closed,
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
  };
  const own = { PATH: `${bin}:${process.env.PATH}`, HOME: home, CI: "1", ...proxy, ...env };
  const began = performance.now();
  return new Promise((resolve) => {
    // Scripts import the packages of the folder. Programs work in their home.
    const cwd = name === "node" ? folder : home;
    const child = spawn(name, rest, { cwd, env: own, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (text += bytes));
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    child.on("close", (code) => {
      clearTimeout(timer);
      rmSync(home, { recursive: true, force: true, maxRetries: 3 });
      resolve({ code, text, ms: performance.now() - began });
    });
  });
}

async function tried(program: Program): Promise<string[]> {
  const fault = installed(program);
  if (fault !== null) return CASES.map(() => `not installed: ${fault}`);
  const rich = await newUser(100_000_000);
  const poor = await newUser(0);
  const place = { url, model: MODEL, key: rich.key };
  const cells: Record<Case, string> = { stream: "", "tool call": "", usage: "", "402": "", "cut stream": "" };
  if (program.only_mcp) return agentRunBy(program, place);
  if (program.only_vectors) return vectorsOf(program, { place, poor_key: poor.key });
  const streamed = await run(program, place, "say hello");
  cells.stream = cellOf(streamed.text.includes(ANSWER), streamed);
  const called = await run(program, place, "CALL the tool");
  cells["tool call"] = cellOf(called.text.includes("the tool-ran"), called);
  const cost = await charged(rich.key);
  cells.usage = cost > 0 ? `${cost} tokens` : "FAILED: nothing charged";
  const before = upstream.requests.length;
  const refused = await run(program, { ...place, key: poor.key }, "say hello");
  const shows_refusal = /token|402|payment/i.test(refused.text) && !refused.text.includes(ANSWER);
  cells["402"] = cellOf(shows_refusal && upstream.requests.length === before, refused);
  const broken = await run(program, place, "CUT the stream");
  const shows_end = program.ignores_failures ?? /broke off|disconnected|error/i.test(broken.text);
  const is_ended = broken.ms < TIMEOUT_MS && shows_end;
  const cut_cell = cellOf(is_ended && (await charged(rich.key)) > cost, broken);
  cells["cut stream"] = program.ignores_failures ? `${cut_cell} (the program ignores the failure)` : cut_cell;
  return CASES.map((name) => cells[name]);
}

/** The cases of an MCP client: it runs the user's agent by a tool and shows its answer; the run is billed. */
async function agentRunBy(program: Program, place: Place): Promise<string[]> {
  const headers = { "x-api-key": place.key, "Content-Type": "application/json", Connection: "close" };
  const agent = { name: "Reporter", model_id: MODEL, run_prompt: TASK };
  const body = JSON.stringify(agent);
  const { id } = await (await fetch(`${url}/api/v1/agents`, { method: "POST", headers, body })).json();
  const outcome = await run(program, place, "RUN the reporter");
  const { runs } = await (await fetch(`${url}/api/v1/agents/${id}/runs`, { headers })).json();
  const succeeded = runs.filter(({ status }: { status: string }) => status === "succeeded");
  const ok = outcome.text.includes(REPORT) && succeeded.length === 1;
  const cost = await charged(place.key);
  const usage = cost > 0 ? `${cost} tokens` : "FAILED: nothing charged";
  return ["-", `runs an agent: ${cellOf(ok, outcome)}`, usage, "-", "-"];
}

/** The cases of a program that creates embeddings. The fake's vector of 9 characters is 2.25 2.5 2.75. */
async function vectorsOf(program: Program, { place, poor_key }: { place: Place; poor_key: string }): Promise<string[]> {
  const created = await run(program, place, "say hello");
  const has_both = created.text.includes("vectors 2.25 2.5 2.75 and 2.5 2.75 3");
  const cost = await charged(place.key);
  const refused = await run(program, { ...place, key: poor_key }, "say hello");
  const usage = cost > 0 ? `${cost} tokens` : "FAILED: nothing charged";
  return [
    "no stream",
    `vectors: ${cellOf(has_both, created)}`,
    usage,
    cellOf(/token|402/i.test(refused.text), refused),
    "-",
  ];
}

function cellOf(ok: boolean, { code, text }: Outcome): string {
  return ok ? "ok" : `FAILED (${code}): ${text.replace(/\s+/g, " ").slice(-300)}`;
}

function table(lines: string[][]): string {
  const [head = [], ...body] = lines.map((cells) => `| ${cells.join(" | ")} |`);
  return [head, `|${"---|".repeat(CASES.length + 1)}`, ...body].join("\n");
}
