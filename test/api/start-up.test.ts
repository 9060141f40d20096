import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, LAB_KEY } from "../support/lab.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, startUpstream } from "../support/upstream.ts";

const embedded = process.env.TEST_STORAGE === "embedded";
const KEK = `test:${Buffer.alloc(32, 7).toString("base64")}`;

const running: RunningProcess[] = [];
const start = (env: Record<string, string>) => {
  const child = startProcess(env);
  running.push(child);
  return child;
};
afterEach(async () => {
  for (const child of running.splice(0)) {
    child.signal("SIGKILL");
    await child.ended;
  }
});

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), "purser-start-"));
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});
/** Where the suite's storage is, and a free port. */
const place = (): Record<string, string> => ({
  PORT: "0",
  DATA_DIR: database.data_dir,
  ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url, PURSER_KEK: KEK }),
});
const asOperator = async (url: string, method: string, path: string, body?: object) => {
  const headers = { Authorization: `Bearer ${ADMIN_KEY}`, "Content-Type": "application/json" };
  const response = await fetch(`${url}${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  return response.json();
};

describe("starting (contract 1)", () => {
  it("prints its address on the first line that names one, serves there, and ends on SIGTERM with 0", async () => {
    const child = start(place());
    const url = await child.listening;
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d+$/);
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    child.signal("SIGTERM");
    const { code, stdout } = await child.ended;
    expect(code).toBe(0);
    const naming = stdout.split("\n").filter((line) => line.includes("http://"));
    expect(naming[0]).toBe(`listening on ${url}`);
  });

  it("offers the built-in model alone when no provider's key is set, and no operator API without its key", async () => {
    const seed = await start({ ...place(), PURSER_ADMIN_KEY: ADMIN_KEY }).listening;
    const made = await asOperator(seed, "POST", "/api/v1/admin/users", { email: "first@example.com" });
    running[0]?.signal("SIGTERM");
    await running[0]?.ended;
    const url = await start(place()).listening;
    const models = await fetch(`${url}/api/v1/models`, { headers: { Authorization: `Bearer ${made.api_key.key}` } });
    expect((await models.json()).data.map((model: { id: string }) => model.id)).toEqual(["purser/rehearsal"]);
    expect((await fetch(`${url}/api/v1/admin/users`, { headers: { Authorization: "Bearer x" } })).status).toBe(404);
  });

  it("says so and exits 1 when the port is taken", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as AddressInfo;
    const { code, stderr } = await start({ ...place(), PORT: String(port) }).ended;
    taken.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(/EADDRINUSE|in use/);
  });

  it.runIf(embedded)("keeps a keyring of its own, for its owner's eyes, says so once, and keeps it", async () => {
    const DATA_DIR = join(folder, "fresh");
    const first = start({ PORT: "0", DATA_DIR });
    await first.listening;
    const { mode, mtimeMs } = statSync(join(DATA_DIR, "keyring"));
    expect(mode & 0o777).toBe(0o600);
    first.signal("SIGTERM");
    const ended = await first.ended;
    expect(ended.stdout + ended.stderr).toContain("keyring");
    const second = start({ PORT: "0", DATA_DIR });
    await second.listening;
    expect(statSync(join(DATA_DIR, "keyring")).mtimeMs).toBe(mtimeMs);
    second.signal("SIGTERM");
    expect((await second.ended).stdout).not.toContain("keyring");
  });

  it.runIf(embedded)(
    "refuses a folder that another process serves from, in a sentence, and harms neither",
    async () => {
      const first = start(place());
      const url = await first.listening;
      const { code, stderr } = await start(place()).ended;
      expect(code).not.toBe(0);
      expect(stderr.trim().split("\n")).toHaveLength(1);
      expect(stderr).toContain(database.data_dir);
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      first.signal("SIGKILL"); // the lock does not outlive the process
      await first.ended;
      await start(place()).listening;
    },
  );
});

// No storage is reached before the settings are right, so that one storage's run is enough.
describe.runIf(embedded)("a bad setting: one line that names it, exit 2, nothing started (contract 1)", () => {
  const stripe = { STRIPE_SECRET_KEY: "sk_test_x", STRIPE_WEBHOOK_SECRET: "whsec_x" };
  it.concurrent.each<[string, Record<string, string>]>([
    ["PORT", { PORT: "70000" }],
    ["HOST", { HOST: "not a host" }],
    ["DATABASE_URL", { DATABASE_URL: "mysql://root:hunter2@localhost/x", PURSER_KEK: KEK }],
    ["PURSER_KEK", { DATABASE_URL: "postgres://localhost/x" }],
    ["PURSER_KEK", { PURSER_KEK: "hunter2:c2hvcnQ=" }],
    ["PURSER_TEST_CLOCK", { PURSER_TEST_CLOCK: "yesterday" }],
    ["PURSER_TEST_CLOCK", { PURSER_TEST_CLOCK: "2026-01-01T00:00:00Z", PURSER_PAYMENTS: "stripe", ...stripe }],
    ["PURSER_PAYMENTS", { PURSER_PAYMENTS: "cash" }],
    ["STRIPE_SECRET_KEY", { PURSER_PAYMENTS: "stripe" }],
    ["PURSER_PUBLIC_URL", { PURSER_PUBLIC_URL: "ftp://example.com" }],
    ["PURSER_TRUSTED_PROXIES", { PURSER_TRUSTED_PROXIES: "10.0.0.0/33" }],
    ["PURSER_EGRESS_ALLOW", { PURSER_EGRESS_ALLOW: "localhost" }],
    ["PURSER_SIGNUP", { PURSER_SIGNUP: "maybe" }],
    ["SMTP_URL", { SMTP_URL: "http://mail" }],
    ["OPENAI_API_KEY", { OPENAI_API_KEY: "two words" }],
    ["PURSER_CONFIG", { PURSER_CONFIG: "/nowhere/purser.yaml" }],
  ])("%s: %o", async (variable, env) => {
    const DATA_DIR = join(mkdtempSync(join(folder, "bad-")), "data");
    const { code, stdout, stderr } = await startProcess({ PORT: "0", DATA_DIR, ...env }).ended;
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toMatch(new RegExp(`^${variable}\\b[^\\n]+\\n$`));
    expect(stderr).not.toContain("hunter2");
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  it.concurrent.each([
    ["an unknown key", "trial: { days: 14 }\nmodles: []\n", 2, "modles"],
    ["an unknown nested key", "limits:\n  requests_per_minute: 5\n  request_per_hour: 5\n", 3, "request_per_hour"],
    [
      "a model without its provider",
      "models:\n  - { id: a/b, provider: none, provider_model: b, input_rate: 1, output_rate: 2, context_window: 10, max_output_tokens: 5 }\n",
      2,
      "provider",
    ],
    [
      "a negative rate",
      "providers:\n  - { name: p, kind: openai-compatible, base_url: 'http://x/v1' }\nmodels:\n  - id: a/b\n    provider: p\n    provider_model: b\n    input_rate: -1\n    output_rate: 2\n    context_window: 10\n    max_output_tokens: 5\n",
      7,
      "input_rate",
    ],
    ["broken YAML", "trial: { days: 14\n", 2, ""],
  ])("PURSER_CONFIG with %s: file, line and reason", async (_, text, line, reason) => {
    const own = mkdtempSync(join(folder, "config-"));
    const file = join(own, "purser.yaml");
    writeFileSync(file, text);
    const { code, stderr } = await startProcess({ PORT: "0", DATA_DIR: join(own, "data"), PURSER_CONFIG: file }).ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(/^PURSER_CONFIG[^\n]+\n$/);
    expect(stderr).toContain(`${file}:${line}:`);
    expect(stderr).toContain(reason);
    expect(readdirSync(own)).toEqual(["purser.yaml"]);
  });
});

describe("SIGTERM (contract 1)", () => {
  it("lets a call in flight settle and be answered, takes no new one, exits 0, and the charge is kept", async () => {
    const upstream = await startUpstream();
    let answer = () => {};
    upstream.answer(async (response, request) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      await completion()(response, request);
    });
    const config = join(folder, "lab.json");
    const model = { id: "lab/plain", provider: "lab", provider_model: "plain", input_rate: 1, output_rate: 2 };
    writeFileSync(
      config,
      JSON.stringify({
        providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "LAB_KEY" }],
        models: [{ ...model, trial_eligible: true, context_window: 128_000, max_output_tokens: 4096 }],
      }),
    );
    const env = { ...place(), PURSER_ADMIN_KEY: ADMIN_KEY, PURSER_CONFIG: config, LAB_KEY };
    const first = start(env);
    const url = await first.listening;
    const { api_key } = await asOperator(url, "POST", "/api/v1/admin/users", { email: "slow@example.com" });
    const headers = { Authorization: `Bearer ${api_key.key}`, "Content-Type": "application/json" };
    const body = JSON.stringify(ask("lab/plain"));
    const call = fetch(`${url}/api/v1/chat/completions`, { method: "POST", headers, body });
    await upstream.until(() => upstream.requests.length === 1);
    first.signal("SIGTERM");
    const isRefused = () =>
      fetch(`${url}/readyz`, { headers: { Connection: "close" } }).then(
        (response) => response.status === 503,
        () => true,
      );
    await expect.poll(isRefused, { timeout: 5000 }).toBe(true);
    answer();
    const answered = await call;
    expect(answered.status).toBe(200);
    expect((await answered.json()).usage.cost_tokens).toBe(18);
    expect((await first.ended).code).toBe(0);

    const again = await start(env).listening;
    const profile = await fetch(`${again}/api/v1/users/me`, { headers });
    expect((await profile.json()).balance).toMatchObject({ held: 0, available: 625_000 - 18 });
    expect(await asOperator(again, "GET", "/api/v1/admin/audit")).toMatchObject({ ok: true });
    await upstream.close();
  });
});
