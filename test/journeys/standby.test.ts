import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { newDatabaseFolder } from "../support/folder.ts";
import { type PostgresServer, runSql, startPostgres } from "../support/postgres-server.ts";
import { COMPILE_CACHE, type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";

// Exports and audits that read from a streaming standby (PURSER_READ_DATABASE_URL).

const ROOT = join(import.meta.dirname, "../..");
const NAME = "purser";

describe.skipIf(inject("storage").kind === "embedded")("with a streaming standby", () => {
  let primary: PostgresServer;
  let standby: PostgresServer;
  let env: Record<string, string>;
  let service: RunningProcess;
  let url: string;
  let key: string;

  beforeAll(async () => {
    primary = await startPostgres({ folder: newDatabaseFolder("primary") });
    standby = await startPostgres({ folder: newDatabaseFolder("standby"), standby_of: primary });
    await runSql(primary.url("postgres"), `create database ${NAME}`);
    env = {
      PORT: "0",
      DATABASE_URL: primary.url(NAME),
      PURSER_READ_DATABASE_URL: standby.url(NAME),
      PURSER_ADMIN_KEY: ADMIN_KEY,
      PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    };
    service = startProcess(env);
    url = await service.listening;
    key = (await admin("POST", "users", { email: "ada@example.com" })).api_key.key;
  });
  afterAll(async () => {
    service.signal("SIGTERM");
    await service.ended;
    await standby.stop();
    await primary.stop();
  });

  async function admin(method: string, path: string, body?: unknown) {
    const headers = { Authorization: `Bearer ${ADMIN_KEY}`, "Content-Type": "application/json" };
    const sent = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    return (await fetch(`${url}/api/v1/admin/${path}`, sent)).json();
  }
  const exported = async () => {
    const answer = await fetch(`${url}/api/v1/users/me/transactions?format=csv`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    return (await answer.text()).trim().split("\r\n").length - 1;
  };
  /** `npm run audit`. */
  const audit = (other: Record<string, string> = {}) =>
    new Promise<{ code: number; text: string }>((resolve) => {
      const { PATH = "" } = process.env;
      const options = { cwd: ROOT, env: { PATH, NODE_COMPILE_CACHE: COMPILE_CACHE, ...env, ...other } };
      execFile(join(ROOT, "node_modules/.bin/node"), ["src/cli/purser.ts", "audit"], options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
      );
    });
  const pause = (way: "pause" | "resume") => runSql(standby.url(NAME), `select pg_wal_replay_${way}()`);
  /** Reads of the entries on a server, as its statistics count them. */
  const entryReads = async (server: PostgresServer) => {
    const text = "select (seq_scan + idx_scan)::integer as reads from pg_stat_user_tables where relname = 'entry'";
    return ((await runSql(server.url(NAME), text)) as { reads: number }[])[0]?.reads ?? 0;
  };

  test("exports and audits read from the standby, and contain each commit before the request", async () => {
    const { user } = (await admin("GET", "users")).users.map((user: unknown) => ({ user }))[0];
    for (let nth = 2; nth <= 4; nth += 1) {
      await admin("POST", `users/${user.id}/grants`, { amount_tokens: 5, source: "bonus" });
      expect(await exported()).toBe(nth);
    }
    // An open session may report its reads up to ten seconds later.
    const reads = () => expect.poll(() => entryReads(standby));
    await reads().toBeGreaterThan(0);
    const exports_read = await entryReads(standby);
    expect(await audit()).toMatchObject({ code: 0, text: expect.stringMatching(/checked 4 entries(.|\n)*in order/) });
    await reads().toBeGreaterThan(exports_read);
    expect(await admin("GET", "audit")).toMatchObject({ ok: true, checked: { entries: 4 } });
  });

  test("if the standby is behind, the audit ends and says by how much, and an export reads from the primary", async () => {
    await pause("pause");
    const { users } = await admin("GET", "users");
    await admin("POST", `users/${users[0].id}/grants`, { amount_tokens: 5, source: "bonus" });
    const [ended, lines] = await Promise.all([audit(), exported()]);
    await pause("resume");
    expect(lines).toBe(5);
    expect(ended.code).toBe(1);
    expect(ended.text).toMatch(
      /PURSER_READ_DATABASE_URL: the standby is \d+ bytes behind the database after 5 s, and its last commit is \d+ s old/,
    );
    expect(service.stderr()).toContain("exports and audits read from the database, not from its standby");
    expect(await exported()).toBe(5);
    await expect.poll(() => service.stderr()).toContain("exports and audits read from the standby again");
  });

  test("the audit names a server that is no standby of the database", async () => {
    const cases: [string, RegExp][] = [
      [primary.url(NAME), /the server is not a standby: it accepts writes/],
      [standby.url("postgres"), /its database postgres is not a copy of the database of DATABASE_URL/],
      ["postgres://purser@127.0.0.1:1/purser", /the server does not answer: .*ECONNREFUSED/],
    ];
    for (const [PURSER_READ_DATABASE_URL, reason] of cases) {
      const { code, text } = await audit({ PURSER_READ_DATABASE_URL });
      expect([code, text]).toEqual([1, expect.stringMatching(reason)]);
    }
  });

  test("a standby that was promoted is no longer used", async () => {
    await runSql(standby.url(NAME), "select pg_promote()");
    expect(await exported()).toBe(5);
    expect((await audit()).text).toMatch(/is not a standby: it accepts writes/);
  });
});
