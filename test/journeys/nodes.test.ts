import { randomBytes } from "node:crypto";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, LAB_KEY, labConfig } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { runSql } from "../support/postgres-server.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// Nodes of different roles over one PostgreSQL, started at the same moment on an empty database.

const storage = inject("storage");
const NOON = "2026-03-01T12:00:00.000Z";
const NEXT_DAY = "2026-03-02T12:00:00.000Z";

// biome-ignore lint/suspicious/noExplicitAny: tests read any field
type Answer = { status: number; body: any };

describe.runIf(storage.kind === "postgres")("two api nodes and a worker on one PostgreSQL", () => {
  let home: TestDatabase;
  let upstream: Upstream;
  const url = storage.kind === "postgres" ? storage.url : "";
  const name = `nodes_${process.pid}`;
  const database_url = () => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  const processes: RunningProcess[] = [];
  let nodes: { first: string; second: string; worker: string };
  let key: string;

  beforeAll(async () => {
    upstream = await startUpstream();
    home = await createTestDatabase();
    await runSql(url, `create database ${name}`);
    const config = join(home.data_dir, "purser.json");
    writeFileSync(config, JSON.stringify(labConfig(upstream)));
    const env: Record<string, string> = {
      PORT: "0",
      DATA_DIR: home.data_dir,
      DATABASE_URL: database_url(),
      PURSER_CONFIG: config,
      PURSER_ADMIN_KEY: ADMIN_KEY,
      PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
      PURSER_TEST_CLOCK: NOON,
      LAB_KEY,
    };
    for (const role of ["api", "api", "worker"]) processes.push(startProcess({ ...env, PURSER_ROLE: role }));
    const [first = "", second = "", worker = ""] = await Promise.all(processes.map(({ listening }) => listening));
    nodes = { first, second, worker };
    const made = await send(first, "POST", "/api/v1/admin/users", { email: "a@example.com" }, ADMIN_KEY);
    key = made.body.api_key.key;
  });
  afterAll(async () => {
    for (const each of processes) each.signal("SIGKILL");
    await Promise.all(processes.map(({ ended }) => ended));
    await upstream.close();
    await runSql(url, `drop database ${name} with (force)`);
    await home.drop();
  });

  async function send(node: string, method: string, path: string, body?: unknown, bearer = key, prefer?: string) {
    const headers: Record<string, string> = { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" };
    if (prefer !== undefined) headers.Prefer = prefer;
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${node}${path}`, { method, headers, ...sent });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) } as Answer;
  }
  const finishedRuns = async (node: string) => {
    const lines = (await metricsOf(node)).split("\n");
    const counts = lines.filter((line) => line.startsWith("purser_runs_total{")).map((line) => line.split(" ").at(-1));
    return counts.reduce((sum, count) => sum + Number(count), 0);
  };
  const newAgent = async (fields: object = {}): Promise<string> => {
    const agent = { name: newId(), model_id: "lab/plain", run_prompt: "go", ...fields };
    return (await send(nodes.first, "POST", "/api/v1/agents", agent)).body.id;
  };

  test("migrate the database once, and each is ready", async () => {
    for (const node of Object.values(nodes)) expect((await fetch(`${node}/readyz`)).status).toBe(200);
    const applied = await runSql(database_url(), "select name from schema_migration");
    expect(applied).toHaveLength(readdirSync("migrations").filter((file) => file.endsWith(".sql")).length);
  });

  test("include a worker that serves its probes and metrics, and answers API requests with the API's address", async () => {
    for (const path of ["/livez", "/readyz"]) expect((await fetch(`${nodes.worker}${path}`)).status).toBe(200);
    expect((await fetch(`${nodes.worker}/metrics`)).status).toBe(401);
    expect(await metricsOf(nodes.worker)).toContain("purser_build_info");
    for (const path of ["/api/v1/users/me", "/api/v1/admin/users", "/openapi.json", "/"]) {
      const { status, body } = await send(nodes.worker, "GET", path);
      expect([status, body.error.code]).toEqual([404, "not_found"]);
      expect(body.error.message).toContain("PURSER_ROLE");
    }
  });

  test("execute a run that an api node queued on the worker within a second, and answer the waiting caller", {
    retry: 2,
  }, async () => {
    const agent = await newAgent();
    upstream.answer(completion());
    const before = await finishedRuns(nodes.worker);
    await send(nodes.first, "POST", `/api/v1/agents/${agent}/runs`, undefined, key, "wait=10"); // opens the connections
    await expect.poll(() => finishedRuns(nodes.worker)).toBe(before + 1); // a run is counted after its answer
    const started = performance.now();
    const run = await send(nodes.first, "POST", `/api/v1/agents/${agent}/runs`, undefined, key, "wait=10");
    expect(performance.now() - started).toBeLessThan(1_000);
    expect([run.status, run.body.status, run.body.output]).toEqual([200, "succeeded", "hello from upstream"]);
    await expect.poll(() => finishedRuns(nodes.worker)).toBe(before + 2);
    expect(await finishedRuns(nodes.first)).toBe(0);
    const seen = await send(nodes.second, "GET", `/api/v1/agents/${agent}/runs/${run.body.id}`);
    expect(seen.body.output).toBe("hello from upstream");
  });

  test("execute a chat, and an agent as a model, on the node that got the request", async () => {
    const agent = await newAgent();
    upstream.answer(completion());
    const before = await finishedRuns(nodes.worker);
    const messages = [{ role: "user", content: "hello" }];
    const chat = await send(nodes.second, "POST", `/api/v1/agents/${agent}/chat`, { messages });
    expect([chat.status, chat.body.choices[0].message.content]).toEqual([200, "hello from upstream"]);
    const model = await send(nodes.second, "POST", "/api/v1/chat/completions", ask(`agent/${agent}`));
    expect([model.status, model.body.choices[0].message.content]).toEqual([200, "hello from upstream"]);
    await expect.poll(() => finishedRuns(nodes.second)).toBe(2);
    expect(await finishedRuns(nodes.worker)).toBe(before);
  });

  test("cancel a run of one node from another node within two seconds", { retry: 2 }, async () => {
    const agent = await newAgent();
    upstream.answer(hanging());
    const asked = upstream.requests.length;
    const run = await send(nodes.first, "POST", `/api/v1/agents/${agent}/runs`);
    await upstream.until(() => upstream.requests.length > asked);
    const path = `/api/v1/agents/${agent}/runs/${run.body.id}`;
    const started = performance.now();
    expect((await send(nodes.second, "POST", `${path}/cancel`)).body.status).toMatch(/^cancell/);
    await expect
      .poll(async () => (await send(nodes.first, "GET", path)).body.status, { timeout: 2_000, interval: 20 })
      .toBe("cancelled");
    expect(performance.now() - started).toBeLessThan(2_000);
    await upstream.until(() => upstream.hangUps > 0);
    upstream.answer(completion());
  });

  test("reject a key on one node within a second after the other node revoked it", { retry: 2 }, async () => {
    const made = await send(nodes.first, "POST", "/api/v1/api-keys", { name: "short-lived" });
    const other = made.body.key;
    expect((await send(nodes.second, "GET", "/api/v1/users/me", undefined, other)).status).toBe(200);
    expect((await send(nodes.first, "DELETE", `/api/v1/api-keys/${made.body.id}`)).status).toBe(204);
    const status = async () => (await send(nodes.second, "GET", "/api/v1/users/me", undefined, other)).status;
    await expect.poll(status, { timeout: 1_000, interval: 20 }).toBe(401);
  });

  test("share the test clock that one node sets, and the worker executes the runs that become due", async () => {
    const schedule = {
      schedule_enabled: true,
      schedule_interval: "daily",
      schedule_time: "09:00",
      schedule_timezone: "UTC",
    };
    const agent = await newAgent(schedule);
    const before = await finishedRuns(nodes.worker);
    const put = await send(nodes.first, "PUT", "/api/v1/admin/clock", { now: NEXT_DAY }, ADMIN_KEY);
    expect(put.status).toBe(200);
    expect((await send(nodes.second, "GET", "/api/v1/admin/clock", undefined, ADMIN_KEY)).body.now).toBe(NEXT_DAY);
    const { occurrences } = (await send(nodes.second, "GET", `/api/v1/agents/${agent}/occurrences`)).body;
    expect(occurrences).toMatchObject([{ at: "2026-03-02T09:00:00.000Z", state: "run" }]);
    expect(await finishedRuns(nodes.worker)).toBe(before + 1);
    const { body } = await send(nodes.second, "POST", "/api/v1/admin/users", { email: "b@example.com" }, ADMIN_KEY);
    expect(body.user.created_at).toBe(NEXT_DAY);
  });

  test("leave a clean audit of the ledger", async () => {
    const audit = await send(nodes.second, "GET", "/api/v1/admin/audit", undefined, ADMIN_KEY);
    expect(audit.body).toMatchObject({ ok: true, violations: [] });
  });
});

describe.runIf(storage.kind === "embedded")("embedded storage", () => {
  test.each(["api", "worker", "both"])("rejects the role %s with one line, and starts nothing", async (role) => {
    const { code, stdout, stderr } = await startProcess({ PURSER_ROLE: role }).ended;
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^PURSER_ROLE: .+\n$/);
  });
});
