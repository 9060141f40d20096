import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { RELEASE } from "../../src/platform/lib/release.ts";
import { startProcess } from "../support/process.ts";

// `npm run openapi:clients [-- --folder path]`: generates clients from a running service's openapi.json with
// openapi-typescript and @hey-api/openapi-ts, compiles both, and calls the service with both. They need another TypeScript
// than the project's, so they are installed in a temporary folder. `--folder`: keep the packages there for the next time.
// Then it packs @purser/client, whose build checks its types and its examples, and calls the service with the package.

const PACKAGES = [
  ...["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "@hey-api/openapi-ts@0.99.0"],
  ...["typescript@5.9.3", "@types/node@26.6.6"],
];
const COMPILER = { strict: true, target: "es2023", module: "esnext", moduleResolution: "bundler", noEmit: true };

/** The calls of both clients: a list, a new record, a failure, and the events of a stream. */
const FETCH_CLIENT = `
import createClient from "openapi-fetch";
import type { components, paths } from "./types.ts";
const headers = { Authorization: "Bearer " + process.env.KEY };
const client = createClient<paths>({ baseUrl: process.env.PURSER!, headers });
const models = await client.GET("/api/v1/models");
const list = models.data as { data: components["schemas"]["Model"][] };
const made = await client.POST("/api/v1/agents", { body: { name: "Scout", model_id: list.data[0]!.id } });
const agent: components["schemas"]["Agent"] = made.data!;
const got = await client.GET("/api/v1/agents/{id}", { params: { path: { id: agent.id } } });
const missing = await client.GET("/api/v1/agents/{id}", { params: { path: { id: "none" } } });
const error: components["schemas"]["Error"] = missing.error!;
const event: components["schemas"]["ResponseStreamEvent"] = { type: "response.refusal.delta", sequence_number: 1, item_id: "a", output_index: 0, content_index: 0, delta: "no" };
console.log(JSON.stringify([got.data!.name, error.error.code, event.type]));
`;
const HEY_API_CLIENT = `
import { createAgent, createResponse, getAgent, getProfile, listModels } from "./hey-api/index.ts";
import { client } from "./hey-api/client.gen.ts";
client.setConfig({ baseUrl: process.env.PURSER!, auth: (scheme) => (scheme.scheme === "bearer" ? process.env.KEY : undefined) });
const profile = await getProfile({ throwOnError: true });
const models = await listModels({ throwOnError: true });
const made = await createAgent({ body: { name: "Scout", model_id: "purser/rehearsal" }, throwOnError: true });
const got = await getAgent({ path: { id: made.data.id }, throwOnError: true });
const missing = await getAgent({ path: { id: "none" } });
const response = await createResponse({ body: { model: "purser/rehearsal", input: "Say: hello" }, throwOnError: true });
const names: string[] = [got.data.name, missing.error!.error.code, profile.data.email];
console.log(JSON.stringify([...names, models.data.data.length > 0, JSON.stringify(response.data).includes("hello")]));
`;

const { values } = parseArgs({ options: { folder: { type: "string" } } });
const folder = values.folder ?? mkdtempSync(join(tmpdir(), "purser-generated-"));
const data_dir = mkdtempSync(join(tmpdir(), "purser-generated-data-"));
const ADMIN = "operator-key-of-the-clients";
const service = startProcess({ DATA_DIR: data_dir, PORT: "0", PURSER_ADMIN_KEY: ADMIN, LOG_LEVEL: "silent" });
try {
  const url = await service.listening;
  const env = { PURSER: url, KEY: await newKey(url) };
  const file = await prepared(url);
  step("openapi-typescript", ["openapi-typescript", file, "-o", "types.ts"]);
  step("@hey-api/openapi-ts", ["openapi-ts", "-i", file, "-o", "hey-api"]);
  writeFileSync(join(folder, "fetch.ts"), FETCH_CLIENT);
  writeFileSync(join(folder, "hey.ts"), HEY_API_CLIENT);
  step("tsc", ["tsc", "-p", "."]);
  expectLine("openapi-fetch", run("fetch.ts", env), '["Scout","not_found","response.refusal.delta"]');
  const client = join(import.meta.dirname, "../../clients/typescript");
  step("npm pack of @purser/client", ["npm", "pack", "--pack-destination", folder], client);
  step("npm install of @purser/client", [
    "npm",
    "install",
    "--no-save",
    "--no-audit",
    `./purser-client-${RELEASE}.tgz`,
  ]);
  writeFileSync(
    join(folder, "list.mjs"),
    readFileSync(join(client, "examples/list.ts"), "utf8").replace(": string[]", ""),
  );
  expectLine(
    "@purser/client",
    step("list.mjs", ["node", "list.mjs"], folder, env).trim(),
    "third, second, first, Scout",
  );
  expectLine("hey-api", run("hey.ts", env), '["Scout","not_found","generated@example.com",true,true]');
} finally {
  service.signal("SIGTERM");
  await service.ended;
  rmSync(data_dir, { recursive: true, force: true });
  if (values.folder === undefined) rmSync(folder, { recursive: true, force: true });
}

/** Installs the generators and saves the document. */
async function prepared(url: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"private": true, "type": "module"}');
  const compilerOptions = { ...COMPILER, allowImportingTsExtensions: true, skipLibCheck: true, types: ["node"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["fetch.ts", "hey.ts"] }));
  step("npm install", ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", ...PACKAGES]);
  const file = join(folder, "openapi.json");
  writeFileSync(file, await (await fetch(`${url}/openapi.json`)).text());
  return file;
}

async function newKey(url: string): Promise<string> {
  const headers = { Authorization: `Bearer ${ADMIN}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ email: "generated@example.com" });
  const made = await (await fetch(`${url}/api/v1/admin/users`, { method: "POST", headers, body })).json();
  return (made as { api_key: { key: string } }).api_key.key;
}

function step(name: string, [command = "", ...args]: string[], cwd = folder, added: object = {}): string {
  const own = `${join(folder, "node_modules/.bin")}:${process.env.PATH}`;
  const env = { ...process.env, PATH: own, ...added };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${name} failed: ${stdout}${stderr}`);
  console.log(`${name}: ok`);
  return stdout;
}

/** The generated code imports without extensions, so the bundler of vite resolves it. */
function run(script: string, env: Record<string, string>): string {
  const vite = join(import.meta.dirname, "../../node_modules/vite/dist/node/index.js");
  const source = `import { runnerImport } from ${JSON.stringify(vite)}; await runnerImport("./${script}");`;
  const args = ["--input-type=module", "-e", source];
  const found = spawnSync(process.execPath, args, { cwd: folder, env: { ...process.env, ...env }, encoding: "utf8" });
  if (found.status !== 0) throw new Error(`${script} failed: ${found.stdout}${found.stderr}`);
  return found.stdout.trim();
}

function expectLine(name: string, found: string, wanted: string): void {
  if (found !== wanted) throw new Error(`${name}: ${found} instead of ${wanted}`);
  console.log(`${name} against the service: ok`);
}
