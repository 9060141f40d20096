import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openArchive } from "../../src/operator/backup/archive.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { type PostgresServer, runSql, startPostgres } from "../support/postgres-server.ts";
import { type CommandResult, runPurser, startProcess, startPurser } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { startSite } from "../support/sites.ts";
import { completion, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// Embedded storage with charges, acts and a run in flight: backed up while the service runs, then moved and restored with
// kill -9. For a large database: npm run populate.

const KEK = `k1:${Buffer.alloc(32, 9).toString("base64")}`;

let folder: string;
let backup: string;
let upstream: Upstream;
let embedded: TestDatabase;
let server: PostgresServer;
let env: Record<string, string>;
let user_key: string;
let run_url: string;
let failed: CommandResult;
let denied: CommandResult;
let elsewhere: CommandResult;
let databases = 0;

const call = async (url: string, key: string, method: string, path: string, body?: object) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(`${url}/api/v1/${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  return response.json();
};
const newDatabase = async () => {
  databases += 1;
  // Like servers in other countries, because a copy must not depend on how a session writes values.
  await runSql(server.url("postgres"), `create database d${databases}`);
  await runSql(server.url("postgres"), `alter database d${databases} set timezone = 'Asia/Kathmandu'`);
  await runSql(server.url("postgres"), `alter database d${databases} set datestyle = 'German'`);
  await runSql(server.url("postgres"), `alter database d${databases} set bytea_output = 'escape'`);
  return server.url(`d${databases}`);
};

/** Kills the command after its first rows. */
async function killed(args: string[], env: Record<string, string>): Promise<CommandResult> {
  const child = startPurser(args, env);
  await expect.poll(() => child.stdout().includes(" rows\n"), { interval: 5 }).toBe(true);
  child.kill();
  return child.ended;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-move-"));
  backup = join(folder, "running.gz");
  [upstream, embedded, server] = await Promise.all([startUpstream(), createTestDatabase(), startPostgres()]);
  const config = join(folder, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  env = {
    DATA_DIR: embedded.data_dir,
    PURSER_KEK: KEK,
    PURSER_CONFIG: config,
    LAB_KEY,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PORT: "0",
  };
  const service = startProcess(env);
  const url = await service.listening;
  const { api_key } = await call(url, ADMIN_KEY, "POST", "admin/users", { email: "flight@example.com" });
  user_key = api_key.key;
  const messages = [{ role: "user", content: 'Say "hello" — äöü \u{1f600}\n\tand good morning' }];
  upstream.answer(completion("hello"));
  await call(url, user_key, "POST", "chat/completions", { model: "lab/plain", messages, user: "ada" });
  await call(url, user_key, "POST", "secrets", { name: "token", value: "sealed in the backup" });
  upstream.answer(hanging());
  const { id } = await call(url, user_key, "POST", "agents", { name: "Late", model_id: "lab/plain", run_prompt: "Go" });
  const run = await call(url, user_key, "POST", `agents/${id}/runs`, {});
  run_url = `agents/${id}/runs/${run.id}`;
  await upstream.until(() => upstream.requests.length === 2);
  const { code, stderr } = await runPurser(["backup", backup, "--url", `${url}/`], env);
  expect([code, stderr]).toEqual([0, ""]);
  const as_stranger = { ...env, PURSER_ADMIN_KEY: "a-key-that-is-not-the-operators" };
  denied = await runPurser(["backup", join(folder, "denied.gz"), "--url", url], as_stranger);
  const other = await startSite({ "/api/v1/admin/backup": { status: 405, body: '{"error":"POST is not allowed"}' } });
  elsewhere = await runPurser(["backup", join(folder, "elsewhere.gz"), "--url", other.url], env);
  await other.close();
  const wrong = await startSite({ "/api/v1/admin/backup": { body: "no backup" } });
  failed = await runPurser(["backup", join(folder, "failed.gz"), "--url", wrong.url], env);
  await wrong.close();
  // The run is in flight, and its call has a hold.
  service.signal("SIGKILL");
  await service.ended;
});
afterAll(async () => {
  await Promise.all([upstream.close(), embedded.drop(), server.stop()]);
  rmSync(folder, { recursive: true });
});

it("a backup that fails leaves no part of a file", () => {
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("failed.gz.partial is no complete backup")]);
  expect(readdirSync(folder).sort()).toEqual(["purser.json", "running.gz"]);
});

it("a backup with a wrong operator key names the setting to correct, and prints no JSON", () => {
  expect([denied.code, denied.stderr]).toEqual([
    1,
    expect.stringMatching(
      /^the service at http:\S+ rejects PURSER_ADMIN_KEY \(401\): set it to the service's PURSER_ADMIN_KEY, or to an operator key with the role admin\n$/,
    ),
  ]);
});

it("a backup at the address of another program shows its answer, also if it is JSON of another shape", () => {
  expect([elsewhere.code, elsewhere.stderr]).toEqual([
    1,
    expect.stringMatching(/^the service at http:\S+ answered 405: {"error":"POST is not allowed"}\n$/),
  ]);
});

describe("move", () => {
  it("continues after it was killed, compares and audits both sides, and the new instance resumes the run", async () => {
    const target = await newDatabase();
    const moving = ["move", "--to", target];
    expect((await killed(moving, env)).code).toBe(null);
    const { code, stdout, stderr } = await runPurser(moving, env);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("continuing the move to postgres://");
    expect(stdout).toMatch(/compared \d+ tables: \d+ rows are equal on both sides/);
    expect(stdout.match(/the ledger is in order/g)).toHaveLength(2);

    const refused = await startProcess(env).ended;
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(/was moved to .*: set DATABASE_URL to it/),
    ]);

    upstream.answer(completion("finished elsewhere"));
    // The dead worker's lease ends by the database's clock.
    await runSql(target, "update run set lease_until = now() - interval '1 second' where status = 'running'");
    const service = startProcess({ ...env, DATABASE_URL: target });
    const url = await service.listening;
    const read = () => call(url, user_key, "GET", run_url);
    await expect.poll(async () => (await read()).status, { interval: 200 }).toBe("succeeded");
    const { acts } = await call(url, ADMIN_KEY, "GET", "admin/acts");
    expect(acts.map(({ what }: { what: string }) => what)).toEqual(["backup.create", "user.create"]);
    expect((await call(url, ADMIN_KEY, "GET", "admin/audit")).violations).toEqual([]);
    await expect(runSql(target, "delete from operator_act")).rejects.toThrow(/cannot be changed or deleted/);
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
  });

  it("that is cancelled after its end says what is only in the new database, and does not say to delete it", async () => {
    const { code, stdout } = await runPurser(["move", "--cancel"], env);
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^cancelled: .* If it has started on postgres:\S+ since then, stop it there and keep that/),
    ]);
    expect(stdout).not.toMatch(/delete/i);
  });

  it("rejects a target that has tables, and changes nothing", async () => {
    const target = await newDatabase();
    await runSql(target, "create table another (id integer)");
    const refused = await runPurser(["restore", backup], { ...env, DATABASE_URL: target });
    expect([refused.code, refused.stderr]).toEqual([
      1,
      "the target is not empty, and nothing was changed: create an empty database and name that one\n",
    ]);
  });
});

describe("restore", () => {
  it("of a backup from a running service leaves no usable database when it is killed, and every row when it is run again", async () => {
    const target = await newDatabase();
    const here = { ...env, DATABASE_URL: target };
    expect((await killed(["restore", backup], here)).code).toBe(null);
    const started = await startProcess(here).ended;
    expect([started.code, started.stderr]).toEqual([
      1,
      expect.stringContaining("the database is incomplete: the copy from"),
    ]);
    const { code, stdout, stderr } = await runPurser(["restore", backup], here);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("the ledger is in order");
    const [counts] = await runSql(
      target,
      `select (select count(*)::integer from users) as users, (select count(*)::integer from run where status = 'running') as running,
        (select count(*)::integer from usage_label_daily) as labels, (select runs from runs_at_work where user_id::text like '0000%') as at_work`,
    );
    expect(counts).toMatchObject({ users: 1, running: 1, labels: 1 });
    expect(statSync(backup).mode & 0o777).toBe(0o600);
  });

  it("without the master keys of the backup ends with 1 and names them, although every row is there", async () => {
    const target = await newDatabase();
    const other = { ...env, DATABASE_URL: target, PURSER_KEK: `k2:${Buffer.alloc(32, 8).toString("base64")}` };
    expect(await runPurser(["restore", backup], other)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /the key k1 is missing.* starts only with the keys of the source[\s\S]*with the problems above/,
      ),
    });
    const { PURSER_KEK: _, ...without } = env;
    const here = { ...without, DATABASE_URL: await newDatabase(), DATA_DIR: join(folder, "without-keyring") };
    const { code, stdout, stderr } = await runPurser(["restore", backup], here);
    expect([code, stderr]).toEqual([1, ""]);
    expect(stdout).toContain("MISSING master keys: k1. PURSER_KEK is not set and DATA_DIR has no keyring");
    expect(stdout).toMatch(
      /rows are equal on both sides[\s\S]*the ledger is in order[\s\S]*restored, with the problems above/,
    );
  });

  it("names a file that is missing, truncated or no backup, before it writes anything", async () => {
    const cut = join(folder, "cut.gz");
    writeFileSync(cut, readFileSync(backup).subarray(0, -500));
    await expect(openArchive(cut)).rejects.toThrow(/cut\.gz is no complete backup: .*\. Use another one/);
    await expect(openArchive(join(folder, "purser.json"))).rejects.toThrow(/purser\.json is no complete backup/);
    await expect(openArchive(join(folder, "none.gz"))).rejects.toThrow(/there is no file .*none\.gz/);
  });
});
