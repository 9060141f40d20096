import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, LAB_KEY } from "../support/lab.ts";
import { type RunningProcess, runPurser, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, startUpstream } from "../support/upstream.ts";

/** A start takes seconds on embedded storage, so shared behaviour is tested only on PostgreSQL. */
const is_embedded = inject("storage").kind === "embedded";
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
/** The settings of the suite's storage, and a free port. */
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

  it.runIf(!is_embedded)(
    "offers only the built-in model without a provider's key, and no operator API without its key",
    async () => {
      const seed = await start({ ...place(), PURSER_ADMIN_KEY: ADMIN_KEY }).listening;
      const made = await asOperator(seed, "POST", "/api/v1/admin/users", { email: "first@example.com" });
      running[0]?.signal("SIGTERM");
      await running[0]?.ended;
      const url = await start(place()).listening;
      const models = await fetch(`${url}/api/v1/models`, { headers: { Authorization: `Bearer ${made.api_key.key}` } });
      expect((await models.json()).data.map((model: { id: string }) => model.id)).toEqual(["purser/rehearsal", "auto"]);
      expect((await fetch(`${url}/api/v1/admin/users`, { headers: { Authorization: "Bearer x" } })).status).toBe(404);
    },
  );

  it.runIf(!is_embedded)(
    "reloads PURSER_CONFIG on SIGHUP, and keeps its configuration if the file has a fault",
    async () => {
      const file = join(folder, "reloaded.json");
      const model = { provider: "lab", provider_model: "a", context_window: 1000, max_output_tokens: 100 };
      const write = (...ids: string[]) => {
        const providers = [{ name: "lab", kind: "openai-compatible", base_url: "http://127.0.0.1:9/v1" }];
        const models = ids.map((id) => ({ ...model, id, input_rate: id === "lab/bad" ? -1 : 1, output_rate: 2 }));
        writeFileSync(file, JSON.stringify({ providers, models }));
      };
      write("lab/a");
      const child = start({ ...place(), PURSER_ADMIN_KEY: ADMIN_KEY, PURSER_CONFIG: file, LOG_LEVEL: "info" });
      const url = await child.listening;
      const { api_key } = await asOperator(url, "POST", "/api/v1/admin/users", { email: "reload@example.com" });
      const ids = async () => {
        const response = await fetch(`${url}/api/v1/models`, { headers: { Authorization: `Bearer ${api_key.key}` } });
        return (await response.json()).data
          .map(({ id }: { id: string }) => id)
          .filter((id: string) => id !== "purser/rehearsal" && id !== "auto");
      };
      expect(await ids()).toEqual(["lab/a"]);
      write("lab/a", "lab/b");
      child.signal("SIGHUP");
      await expect.poll(ids).toEqual(["lab/a", "lab/b"]);
      write("lab/bad");
      child.signal("SIGHUP");
      await expect.poll(child.stderr).toMatch(/input_rate must not be negative.*the reload was rejected/);
      expect(await ids()).toEqual(["lab/a", "lab/b"]);
    },
  );

  it.runIf(!is_embedded)("survives SIGHUP while it waits for the database, and ends on SIGTERM with 0", async () => {
    const child = start({ ...place(), DATABASE_URL: "postgres://purser@127.0.0.1:1/purser" });
    await expect.poll(child.stderr).toContain("the database is unavailable");
    child.signal("SIGHUP");
    child.signal("SIGTERM");
    expect((await child.ended).code).toBe(0);
  });

  it.runIf(is_embedded)("hashes a password at the full cost of scrypt", async () => {
    const child = start(place());
    const url = await child.listening;
    const signed_up = await fetch(`${url}/api/v1/auth/sign-up/email`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Origin: url },
      body: JSON.stringify({ email: "costly@example.com", password: "correct horse battery" }),
    });
    expect(signed_up.status).toBe(201);
    child.signal("SIGTERM");
    await child.ended;
    const db = await database.open();
    const kept = await db.query({ text: "select hash from password" });
    await db.close();
    expect(kept).toEqual([{ hash: expect.stringMatching(/^scrypt\$32768\$8\$3\$/) }]);
  });

  it.runIf(!is_embedded)(
    "names PORT on one line and exits with 2 if the port is in use, before it creates anything",
    async () => {
      const taken = createServer().listen(0, "127.0.0.1");
      await new Promise((resolve) => taken.once("listening", resolve));
      const { port } = taken.address() as AddressInfo;
      const DATA_DIR = join(folder, "unmade");
      const { code, stderr } = await start({ ...place(), DATA_DIR, PORT: String(port) }).ended;
      taken.close();
      expect([code, stderr]).toEqual([
        2,
        `PORT: ${port} is in use on 127.0.0.1; accepted: a free port, or 0 for any that is\n`,
      ]);
      expect(existsSync(DATA_DIR)).toBe(false);
    },
  );

  it.runIf(!is_embedded)(
    "serves metrics only at PURSER_METRICS_ADDRESS, health on both ports, and ends both servers on SIGTERM",
    async () => {
      const child = start({ ...place(), PURSER_METRICS_ADDRESS: "127.0.0.1:0" });
      const url = await child.listening;
      await expect.poll(() => /^metrics on (\S+)$/m.exec(child.stdout())?.[1]).toBeDefined();
      const metrics = /^metrics on (\S+)$/m.exec(child.stdout())?.[1];
      for (const path of ["/livez", "/readyz", "/metrics"]) {
        expect((await fetch(`${metrics}${path}`)).status).toBe(200);
        expect((await fetch(`${url}${path}`)).status).toBe(path === "/metrics" ? 404 : 200);
      }
      expect((await fetch(`${metrics}/api/v1/models`)).status).toBe(404);
      expect((await fetch(`${metrics}/nowhere`)).headers.get("X-Content-Type-Options")).toBe("nosniff");
      child.signal("SIGTERM");
      expect((await child.ended).code).toBe(0);
      await expect(fetch(`${metrics}/livez`)).rejects.toThrow();
    },
  );

  it.runIf(!is_embedded)(
    "says in one line that the port of PURSER_METRICS_ADDRESS is in use, and creates nothing",
    async () => {
      const taken = createServer().listen(0, "127.0.0.1");
      await new Promise((resolve) => taken.once("listening", resolve));
      const { port } = taken.address() as AddressInfo;
      const DATA_DIR = join(folder, "no-metrics");
      const { code, stderr } = await start({ PORT: "0", DATA_DIR, PURSER_METRICS_ADDRESS: `127.0.0.1:${port}` }).ended;
      taken.close();
      const accepted = "an address of this machine and a free port, such as 127.0.0.1:9464";
      const fault = `port ${port} is in use on 127.0.0.1`;
      expect([code, stderr]).toEqual([2, `PURSER_METRICS_ADDRESS: ${fault}; accepted: ${accepted}\n`]);
      expect(existsSync(DATA_DIR)).toBe(false);
    },
  );
});

describe("SIGTERM (contract 1)", () => {
  it("lets a call in flight finish and settle, accepts no new one, exits with 0, and keeps the charge", async () => {
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
    await expect.poll(isRefused).toBe(true);
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

describe("a bad setting (contract 1)", () => {
  it.runIf(!is_embedded)(
    "with a misspelt name is named in the log of the start, because it has no effect",
    async () => {
      const child = start({ ...place(), PURSER_SIGN_UP: "closed" });
      await child.listening;
      expect(child.stderr()).toContain(
        '"PURSER_SIGN_UP: this is no setting, so it has no effect: did you mean PURSER_SIGNUP?"',
      );
    },
  );

  const NEGATIVE_RATE = `providers:
  - { name: p, kind: openai-compatible, base_url: "http://x/v1" }
models:
  - { id: a/b, provider: p, provider_model: b, input_rate: -1, output_rate: 2, context_window: 10, max_output_tokens: 5 }
`;
  it.runIf(!is_embedded).each<[string, Record<string, string>]>([
    ["DATABASE_URL: ", { DATABASE_URL: "mysql://root:hunter2@localhost/x", PURSER_KEK: KEK }],
    ["PURSER_TEST_CLOCK: ", { PURSER_TEST_CLOCK: "yesterday" }],
    ["PURSER_CONFIG: FILE:4: models[0].input_rate ", { PURSER_CONFIG: "FILE" }],
  ])("%s is reported in one line that names it, with exit code 2, and nothing is created", async (beginning, env) => {
    const own = mkdtempSync(join(folder, "bad-"));
    const file = join(own, "purser.yaml");
    writeFileSync(file, NEGATIVE_RATE);
    const settings = Object.entries(env).map(([name, value]) => [name, value.replace("FILE", file)]);
    const bad = start({ PORT: "0", DATA_DIR: join(own, "data"), ...Object.fromEntries(settings) });
    const { code, stdout, stderr } = await bad.ended;
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr.startsWith(beginning.replace("FILE", file)), stderr).toBe(true);
    expect(stderr).not.toContain("hunter2");
    expect(readdirSync(own)).toEqual(["purser.yaml"]);
  });
});

describe.runIf(is_embedded)("DATA_DIR (contract 1)", () => {
  it("gets a keyring that only its owner can read, which is reported once and kept", async () => {
    const own = await createTestDatabase();
    const keyring = join(own.data_dir, "keyring");
    const first = start({ PORT: "0", DATA_DIR: own.data_dir });
    await first.listening;
    const { mode, mtimeMs } = statSync(keyring);
    expect(mode & 0o777).toBe(0o600);
    first.signal("SIGTERM");
    const ended = await first.ended;
    expect(ended.stdout + ended.stderr).toContain("keyring");
    const second = start({ PORT: "0", DATA_DIR: own.data_dir });
    await second.listening;
    expect(statSync(keyring).mtimeMs).toBe(mtimeMs);
    second.signal("SIGTERM");
    const again = await second.ended;
    expect(again.stdout + again.stderr).not.toContain("keyring");
    await own.drop();
  });

  it("without its keyring prevents a start, and no new keyring is created", async () => {
    const own = await createTestDatabase();
    const keyring = join(own.data_dir, "keyring");
    const first = start({ PORT: "0", DATA_DIR: own.data_dir });
    await first.listening;
    first.signal("SIGTERM");
    await first.ended;
    rmSync(keyring);
    const { code, stderr } = await start({ PORT: "0", DATA_DIR: own.data_dir }).ended;
    expect([code, stderr]).toEqual([
      2,
      `PURSER_KEK: it is not set, and ${keyring} is missing: the database needs its master key. Restore that file, or set PURSER_KEK to the key\n`,
    ]);
    const rotated = await runPurser(["rotate-keys"], { DATA_DIR: own.data_dir });
    expect(rotated).toMatchObject({ code: 2, stderr });
    expect(existsSync(keyring)).toBe(false);
    await own.drop();
  });

  it("that another process uses is rejected in one sentence, and neither process is harmed", async () => {
    const first = start(place());
    const url = await first.listening;
    const { code, stderr } = await start(place()).ended;
    expect(code).not.toBe(0);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).toContain(database.data_dir);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    first.signal("SIGKILL"); // the lock ends with the process
    await first.ended;
    await start(place()).listening;
  });
});
