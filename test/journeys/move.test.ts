import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { openArchive } from "../../src/backup/archive.ts";
import { createLog } from "../../src/platform/log.ts";
import { openDb } from "../../src/platform/open-db.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { populate } from "../support/populate.ts";
import { runSql } from "../support/postgres-server.ts";
import { type CommandResult, runPurser, startProcess, startPurser } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// Embedded storage with users, charges and runs in flight: backed up while it runs, moved and restored with kill -9.

const KEK = `k1:${Buffer.alloc(32, 9).toString("base64")}`;
const USERS = 4;

let folder: string;
let upstream: Upstream;
let env: Record<string, string>;
let user_key: string;
let run_url: string;
const databases: string[] = [];

const call = async (url: string, key: string, method: string, path: string, body?: object) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(`${url}/api/v1/${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  return response.json();
};
const storageUrl = () => {
  const storage = inject("storage");
  if (storage.kind !== "postgres") throw new Error("this file needs the project postgres");
  return storage.url;
};
const newDatabase = async () => {
  const name = `moved_${process.pid}_${databases.length}`;
  databases.push(name);
  await runSql(storageUrl(), `create database ${name}`);
  return Object.assign(new URL(storageUrl()), { pathname: `/${name}` }).href;
};

/** Kills the command after some lines of progress, again and again with more, until it reaches its end. */
async function killedRepeatedly(
  args: string[],
  env: Record<string, string>,
): Promise<CommandResult & { kills: number }> {
  for (let kills = 0; ; kills += 1) {
    const child = startPurser(args, env);
    let is_over = false;
    const ended = child.ended.then((result) => {
      is_over = true;
      return result;
    });
    // Later kills meet later phases: the rows, the comparison, the audit.
    const lines = [2, 14][kills] ?? Number.POSITIVE_INFINITY;
    await expect
      .poll(() => is_over || child.stdout().split("\n").length > lines + 1, { timeout: 50_000, interval: 5 })
      .toBe(true)
      .catch((error: Error) => {
        if (lines !== Number.POSITIVE_INFINITY) throw error;
      });
    if (lines !== Number.POSITIVE_INFINITY) child.kill();
    const result = await ended;
    if (result.code !== null) return { ...result, kills };
  }
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-move-"));
  upstream = await startUpstream();
  const config = join(folder, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  env = {
    ...{ DATA_DIR: join(folder, "data"), PURSER_KEK: KEK, PURSER_CONFIG: config, LAB_KEY },
    ...{ PURSER_ADMIN_KEY: ADMIN_KEY, PORT: "0" },
  };
  await populate(env, { users: USERS });
  upstream.answer(hanging());
  const service = startProcess(env);
  const url = await service.listening;
  const { api_key } = await call(url, ADMIN_KEY, "POST", "admin/users", { email: "flight@example.com" });
  user_key = api_key.key;
  const { id } = await call(url, user_key, "POST", "agents", { name: "Late", model_id: "lab/plain", run_prompt: "Go" });
  const run = await call(url, user_key, "POST", `agents/${id}/runs`, {});
  run_url = `agents/${id}/runs/${run.id}`;
  await upstream.until(() => upstream.requests.length === 1);
  const { code, stderr } = await runPurser(["backup", join(folder, "running.gz"), "--url", url], env);
  expect([code, stderr]).toEqual([0, ""]);
  // The run is in flight, and its call has a hold.
  service.signal("SIGKILL");
  await service.ended;
}, 300_000);
afterAll(async () => {
  await upstream.close();
  for (const name of databases) await runSql(storageUrl(), `drop database if exists ${name} with (force)`);
  rmSync(folder, { recursive: true });
});

describe("move", () => {
  it("killed in the middle again and again, copies every row, audits both sides, and the new instance takes up the run", async () => {
    const full = await newDatabase();
    await runSql(full, "create table another (id integer)");
    const refused = await runPurser(["move", "--to", full], env);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      "the target is not empty, and nothing was changed: create an empty database and name that one\n",
    ]);
    // The rejected move has left no trace, so another target is accepted.
    const target = await newDatabase();
    const moving = ["move", "--to", target];
    const { code, stdout, stderr, kills } = await killedRepeatedly(moving, env);
    expect([code, stderr]).toEqual([0, ""]);
    expect(kills).toBeGreaterThan(0);
    expect(stdout).toContain("continuing the move to postgres://");
    expect(stdout.match(/the ledger is in order/g)).toHaveLength(2);
    expect(stdout).not.toContain("VIOLATION");

    const again = await runPurser(moving, env);
    expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/was moved to .* before: nothing to do/)]);
    const embedded = await startProcess(env).ended;
    expect(embedded.code).toBe(1);
    expect(embedded.stderr).toMatch(/the embedded database was moved to .*: set DATABASE_URL to it/);

    upstream.answer(completion("finished elsewhere"));
    // The dead worker's lease ends by the database's clock.
    await runSql(target, "update run set lease_expires_at = now() - interval '1 second' where status = 'running'");
    const service = startProcess({ ...env, DATABASE_URL: target });
    const url = await service.listening;
    const read = () => call(url, user_key, "GET", run_url);
    await expect.poll(async () => (await read()).status, { timeout: 40_000, interval: 200 }).toBe("succeeded");
    const { users } = await call(url, ADMIN_KEY, "GET", "admin/users?limit=100");
    expect(users).toHaveLength(USERS + 1);
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
  }, 240_000);
});

describe("restore", () => {
  it("of a backup made while the service ran, killed in the middle, has every row and a ledger in order", async () => {
    const target = await newDatabase();
    const restoring = ["restore", join(folder, "running.gz")];
    const { code, stdout, stderr, kills } = await killedRepeatedly(restoring, { ...env, DATABASE_URL: target });
    expect([code, stderr]).toEqual([0, ""]);
    expect(kills).toBeGreaterThan(0);
    expect(stdout).toContain("the ledger is in order");
    expect(await runSql(target, "select count(*)::integer as users from users")).toEqual([{ users: USERS + 1 }]);
    expect(await runSql(target, "select count(*)::integer as running from run where status = 'running'")).toEqual([
      { running: 1 },
    ]);
  }, 240_000);

  it("is not started on while it is incomplete", async () => {
    const target = await newDatabase();
    const here = { ...env, DATABASE_URL: target };
    const child = startPurser(["restore", join(folder, "running.gz")], here);
    await expect.poll(() => child.stdout().includes(" rows\n"), { timeout: 50_000, interval: 5 }).toBe(true);
    child.kill();
    await child.ended;
    const started = await startProcess(here).ended;
    expect([started.code, started.stderr]).toEqual([
      1,
      expect.stringContaining("the database is incomplete: the copy from"),
    ]);
  }, 120_000);

  it("rejects a file that was cut, and a file that is no backup, before it writes anything", async () => {
    const whole = readFileSync(join(folder, "running.gz"));
    const cut = join(folder, "cut.gz");
    writeFileSync(cut, whole.subarray(0, whole.length - 500));
    await expect(openArchive(cut)).rejects.toThrow(/cut\.gz is no complete backup/);
    await expect(openArchive(join(folder, "purser.json"))).rejects.toThrow(/is no complete backup/);
  });

  it("fills embedded storage as well, and the file of a backup is readable by its owner only", async () => {
    const DATA_DIR = join(folder, "restored");
    const { code, stdout } = await runPurser(["restore", join(folder, "running.gz")], { ...env, DATA_DIR });
    expect([code, stdout]).toEqual([0, expect.stringContaining("the ledger is in order")]);
    const db = await openDb({ database_url: null, data_dir: DATA_DIR, log: createLog("silent") });
    expect(await db.query({ text: "select count(*) as users from users" })).toEqual([{ users: USERS + 1 }]);
    await db.close();
    expect(statSync(join(folder, "running.gz")).mode & 0o777).toBe(0o600);
  }, 120_000);
});
