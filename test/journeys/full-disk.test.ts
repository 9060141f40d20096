import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { runSql, startPostgres } from "../support/postgres-server.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { mountSmall } from "../support/small-disk.ts";

const storage = inject("storage");
const { kind } = storage;
const MB = 1_000_000;

const probe = process.getuid?.() === 0 ? mountSmall(1) : null;
probe?.remove();
const withDisk = test.skipIf(probe === null);

async function startOnDisk(folder: string) {
  const env = { PORT: "0", PURSER_ADMIN_KEY: ADMIN_KEY, PURSER_KEK: `k1:${randomBytes(32).toString("base64")}` };
  if (storage.kind === "embedded") {
    cpSync(storage.template, folder, { recursive: true });
    return { env: { ...env, DATA_DIR: folder }, stop: async () => {} };
  }
  const inside = join(folder, "server");
  mkdirSync(inside);
  const server = await startPostgres({ folder: inside });
  await runSql(server.url("postgres"), "create database purser");
  return { env: { ...env, DATABASE_URL: server.url("purser") }, stop: server.stop };
}

withDisk(
  "on a full disk writes answer 503 at once, reads work, /readyz gives the reason, and free space ends the outage",
  { timeout: 300_000 },
  async () => {
    const disk = mountSmall(kind === "embedded" ? 150 : 300);
    if (disk === null) throw new Error("no file system");
    const { env, stop } = await startOnDisk(disk.folder);
    const service = startProcess(env);
    const url = await service.listening;
    const call = async (method: string, path: string, key: string, body?: unknown) => {
      const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
      const answer = await fetch(`${url}${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: answer.status, headers: answer.headers, body: await answer.json() };
    };
    const made = await call("POST", "/api/v1/admin/users", ADMIN_KEY, { email: "user@example.com" });
    const { key } = made.body.api_key;
    const createAgent = () =>
      call("POST", "/api/v1/agents", key, {
        name: "large",
        model_id: "purser/rehearsal",
        system_prompt: randomBytes(30_000).toString("base64"),
      });
    expect((await createAgent()).status).toBe(201);

    disk.fill(0);
    let last = await createAgent();
    for (let tries = 0; tries < 200 && last.status === 201; tries += 1) last = await createAgent();
    expect(last).toMatchObject({ status: 503, body: { error: { code: "overloaded" } } });
    const started = performance.now();
    const rejected = await createAgent();
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(rejected).toMatchObject({
      status: 503,
      body: { error: { code: "overloaded", message: expect.stringMatching(/no space left/) } },
    });
    expect(rejected.headers.get("Retry-After")).toBe("5");
    expect((await call("GET", "/api/v1/agents", key)).status).toBe(200);
    const cleaned = await call("POST", "/api/v1/safety/sanitize", key, { content: "Hello", kind: "text" });
    expect(cleaned.status).toBe(200);
    expect(await call("GET", "/readyz", key)).toMatchObject({ status: 503, body: { reason: "database_disk_full" } });

    disk.free();
    await expect.poll(async () => (await call("GET", "/readyz", key)).status).toBe(200);
    expect((await createAgent()).status).toBe(201);
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
    await stop();
    disk.remove();
  },
);

test.skipIf(probe === null || kind !== "embedded")(
  "an embedded database that stopped at a failed checkpoint is reported within seconds, and opens again once there is space",
  { timeout: 300_000 },
  async () => {
    const disk = mountSmall(150);
    if (disk === null) throw new Error("no file system");
    let is_stuck = false;
    const onStuck = () => {
      is_stuck = true;
    };
    if (storage.kind === "embedded") cpSync(storage.template, disk.folder, { recursive: true });
    const options = { database_url: null, data_dir: disk.folder, log: createLog("silent") };
    const db = await openDb({ ...options, onStuck });
    await db.query({ text: "create table filling (id serial, text text)" });
    await db.query({ text: "insert into filling (text) values ('kept')" });
    disk.fill(0.4 * MB);
    const fill = { text: "insert into filling (text) select repeat('x', 2000) from generate_series(1, 400)" };
    await expect(Promise.all(Array.from({ length: 5 }, () => db.query(fill)))).rejects.toMatchObject({ code: "53100" });
    await expect(db.query({ text: "checkpoint" })).rejects.toMatchObject({ code: "53100" });
    await expect(db.query({ text: "select 1" })).rejects.toThrow("does not answer any more");
    expect(is_stuck).toBe(true);
    disk.free();

    // The stuck thread keeps the lock of its process, so a copy takes the place of a restart.
    const copy = mkdtempSync(join(tmpdir(), "purser-copy-"));
    execFileSync("cp", ["-r", join(disk.folder, "database"), copy]);
    const again = await openDb({ ...options, data_dir: copy });
    expect(await again.query({ text: "select id from filling where text = 'kept'" })).toEqual([{ id: 1 }]);
    await again.close();
    disk.remove();
  },
);

test.skipIf(probe === null || kind !== "embedded")("a start on a full disk says so", async () => {
  const disk = mountSmall(150);
  if (disk === null) throw new Error("no file system");
  const { env } = await startOnDisk(disk.folder);
  disk.fill(0);
  const { code, stdout, stderr } = await startProcess(env).ended;
  expect(code).not.toBe(0);
  expect(`${stdout}${stderr}`).toContain(`DATA_DIR: the disk of ${disk.folder} is full (0 MB free): free some space`);
  disk.remove();
});
