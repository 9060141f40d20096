import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { expect, inject, test } from "vitest";
import { createChannels } from "../../src/platform/db/postgres-channels.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";

/** Debian's package installs it there. */
const PGBOUNCER = "/usr/sbin/pgbouncer";
const withPooler = test.skipIf(inject("storage").kind === "embedded" || !existsSync(PGBOUNCER));

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** PgBouncer in front of the server of `url`. */
async function startPooler(url: string, pool_mode: "session" | "transaction") {
  const { hostname, port, pathname, username } = new URL(url);
  const folder = mkdtempSync(join(tmpdir(), "purser-pooler-"));
  const listen_port = await freePort();
  const settings = [
    "[databases]",
    `* = host=${hostname} port=${port} user=${username}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${listen_port}`,
    "unix_socket_dir =",
    "auth_type = any",
    `pool_mode = ${pool_mode}`,
    "default_pool_size = 40",
  ];
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(file, settings.join("\n"));
  chmodSync(folder, 0o755);
  // It does not run as root.
  const user = process.getuid?.() === 0 ? ["-u", "postgres"] : [];
  const pooler = spawn(PGBOUNCER, [...user, "-q", file], { stdio: "ignore" });
  const ended = new Promise((resolve) => pooler.once("exit", resolve));
  const pooled = `postgres://${username}@127.0.0.1:${listen_port}${pathname}`;
  await expect
    .poll(() =>
      runSql(pooled, "select 1").then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
  const stop = async () => {
    pooler.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: pooled, stop };
}

const envOf = (url: string) => ({
  PORT: "0",
  DATABASE_URL: url,
  PURSER_ADMIN_KEY: ADMIN_KEY,
  PURSER_KEK: `k1:${randomBytes(32).toString("base64")}`,
});

withPooler("a start through PgBouncer in transaction mode fails with the reason", async () => {
  const database = await createTestDatabase();
  const pooler = await startPooler(database.database_url ?? "", "transaction");
  const env = envOf(pooler.url);
  const { code, stdout, stderr } = await startProcess(env).ended;
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr.trim().split("\n").at(-1)).toMatch(/^DATABASE_URL: a notification \(NOTIFY\).*pool_mode = session/);
  // The first start has left prepared statements on the pooler's connections.
  const again = await startProcess(env).ended;
  expect([again.code, again.stdout]).toEqual([2, ""]);
  expect(again.stderr.trim().split("\n").at(-1)).toMatch(/^DATABASE_URL: a .*pool_mode = session/);
  await pooler.stop();
  await database.drop();
});

withPooler("through PgBouncer in session mode the service starts, and is notified of a revoked key", async () => {
  const database = await createTestDatabase();
  const pooler = await startPooler(database.database_url ?? "", "session");
  const service = startProcess(envOf(pooler.url));
  const url = await service.listening;
  const headers = (key: string) => ({ Authorization: `Bearer ${key}`, "Content-Type": "application/json" });
  const body = JSON.stringify({ email: "user@example.com" });
  const made = await fetch(`${url}/api/v1/admin/users`, { method: "POST", headers: headers(ADMIN_KEY), body });
  const { user, api_key } = await made.json();
  const status = async () => (await fetch(`${url}/api/v1/models`, { headers: headers(api_key.key) })).status;
  expect(await status()).toBe(200);
  // A change by this node would not need the notification.
  await runSql(database.database_url ?? "", `update users set suspended_at = now() where id = '${user.id}'`);
  await expect.poll(status).toBe(403);
  service.signal("SIGTERM");
  expect((await service.ended).code).toBe(0);
  await pooler.stop();
  await database.drop();
});

const onPostgres = test.skipIf(inject("storage").kind === "embedded");

/** Channels on a real server, with another connection that sends. */
async function channelsWith(notify: (send: () => void, listening: pg.Client) => Promise<void>) {
  const database = await createTestDatabase();
  const connectionString = database.database_url ?? "";
  const other = new pg.Client({ connectionString });
  await other.connect();
  const listening = new pg.Client({ connectionString });
  listening.on("error", () => {});
  const failures: unknown[] = [];
  const channels = createChannels({
    connect: async () => {
      await listening.connect();
      return listening;
    },
    notify: (channel, payload) =>
      notify(() => void other.query("select pg_notify($1, $2)", [channel, payload]).catch(() => {}), listening),
    failed: (error) => failures.push(error),
    log: createLog("silent"),
  });
  const close = async () => {
    await channels.close();
    await other.end();
    await database.drop();
  };
  return { channels, close };
}

onPostgres("a database that answers later than the proof's time limit does not count as a pooler", async () => {
  const { channels, close } = await channelsWith(async (send) => {
    await delay(5_100);
    setTimeout(send, 100);
  });
  await channels.listen("slow", () => {});
  expect(channels.isListening()).toBe(true);
  await close();
});

onPostgres(
  "a listening connection that ends during its proof counts as a lost connection, not as a pooler",
  async () => {
    const { channels, close } = await channelsWith(async (_, listening) => {
      listening.connection.stream.destroy();
    });
    await expect(channels.listen("lost", () => {})).rejects.toThrow("the listening connection ended");
    await close();
  },
);
