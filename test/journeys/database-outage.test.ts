import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, inject, test } from "vitest";
import { openPostgres } from "../../src/platform/db/postgres.adapter.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { BODIES } from "../support/bad-bodies.ts";
import { createTestDatabase } from "../support/database.ts";
import { runSql, startPostgres } from "../support/postgres-server.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";

const storage = inject("storage");
const onPostgres = test.skipIf(storage.kind === "embedded");
const UNKNOWN_ID = "01900000-0000-7000-8000-000000000000";
/** Operations that do not read the database before they answer. */
const WITHOUT_DATABASE = [
  "GET /api/v1/auth/get-session",
  "POST /api/v1/auth/sign-out",
  "POST /api/v1/auth/sign-out-everywhere",
  "POST /api/v1/auth/change-password",
  "POST /api/v1/auth/delete-account",
  "POST /api/v1/auth/confirm-password",
  "POST /api/v1/auth/sign-up/email",
  "POST /api/v1/auth/verify-email",
  "POST /api/v1/auth/request-password-reset",
  "POST /api/v1/auth/reset-password",
  "POST /api/v1/api-keys/revoke-leaked",
  "PUT /api/v1/admin/clock",
  "GET /api/v1/admin/clock",
  "GET /api/v1/admin/plans",
  "GET /api/v1/admin/models",
  "GET /api/v1/admin/settings",
  "POST /api/v1/admin/providers/{name}/test",
  "POST /api/v1/admin/mail/test",
  "POST /api/v1/admin/payments/test",
  "GET /api/v1/secrets/oauth/client-metadata",
  "POST /api/v1/billing/stripe/webhook",
];

interface Line {
  level: number;
  msg: string;
  state?: string;
}
const linesOf = (text: string): Line[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));

/** A database on a server that can reject every connection. */
async function createSwitchedDatabase() {
  const database = await createTestDatabase();
  const url = database.database_url ?? "";
  const name = new URL(url).pathname.slice(1);
  const admin = storage.kind === "postgres" ? storage.url : "";
  const goAway = async () => {
    await runSql(admin, `alter database ${name} allow_connections false`);
    await runSql(admin, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  };
  const comeBack = () => runSql(admin, `alter database ${name} allow_connections true`);
  const env = {
    PORT: "0",
    DATABASE_URL: url,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `k1:${randomBytes(32).toString("base64")}`,
  };
  return { url, env, goAway, comeBack, drop: database.drop };
}

const bearer = (key: string) => ({ Authorization: `Bearer ${key}`, "Content-Type": "application/json" });

async function newKey(url: string): Promise<string> {
  const made = await fetch(`${url}/api/v1/admin/users`, {
    method: "POST",
    headers: bearer(ADMIN_KEY),
    body: JSON.stringify({ email: "user@example.com" }),
  });
  return (await made.json()).api_key.key;
}

interface Parameter {
  in: string;
  name: string;
  required?: boolean;
}

/** Every documented operation below /api/v1, with a valid body, the parameters that it needs and ids of no object. */
async function operationsOf(url: string) {
  const { paths } = await (await fetch(`${url}/openapi.json`)).json();
  const routes = Object.entries<Record<string, { parameters?: Parameter[] }>>(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [] }]) => [method.toUpperCase(), path, parameters] as const),
  );
  return routes
    .filter(([, path]) => path.startsWith("/api/v1/"))
    .map(([method, path, parameters]) => {
      const needed = parameters.filter((each) => each.in === "query" && each.required === true);
      const query = new URLSearchParams(needed.map(({ name }) => [name, UNKNOWN_ID]));
      return {
        route: `${method} ${path}`,
        method,
        path: `${path.replaceAll(/\{\w+\}/g, UNKNOWN_ID)}${needed.length === 0 ? "" : `?${query}`}`,
        body: BODIES[`${method} ${path}`]?.valid,
      };
    });
}

onPostgres(
  "during an outage of the database every route answers 503 with Retry-After, and the log has one line about it",
  async () => {
    const { env, goAway, comeBack, drop } = await createSwitchedDatabase();
    const service = startProcess(env);
    const url = await service.listening;
    const key = await newKey(url);
    const call = (method: string, path: string, body?: unknown) =>
      fetch(`${url}${path}`, {
        method,
        headers: bearer(path.startsWith("/api/v1/admin/") ? ADMIN_KEY : key),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    expect((await call("GET", "/api/v1/models")).status).toBe(200);
    const operations = await operationsOf(url);
    expect(operations.length).toBeGreaterThan(60);

    await goAway();
    const answers = await Promise.all(
      operations.map(async ({ route, method, path, body }) => {
        const { status, headers } = await call(method, path, body);
        return { route, status, retry_after: headers.get("Retry-After") };
      }),
    );
    for (const { route, status, retry_after } of answers) {
      expect.soft(status, route).not.toBe(500);
      if (!WITHOUT_DATABASE.includes(route)) expect.soft([status, retry_after], route).toEqual([503, "1"]);
    }
    expect((await call("GET", "/readyz")).status).toBe(503);
    expect((await call("GET", "/livez")).status).toBe(200);

    await comeBack();
    const warnings = () => linesOf(service.stderr()).filter(({ level }) => level >= 40);
    const about = (text: RegExp) => warnings().filter(({ msg }) => text.test(msg));
    await expect.poll(() => about(/database is back/).length).toBe(1);
    await expect.poll(async () => (await call("GET", "/api/v1/models")).status).toBe(200);
    expect(about(/the database is unavailable/)).toMatchObject([{ state: "away" }]);
    expect(warnings().filter(({ msg }) => !/the database is (unavailable|back)|no users|PURSER_/.test(msg))).toEqual(
      [],
    );

    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(0);
    await drop();
  },
);

/** A port that forwards to the server of `url`. Once frozen, it keeps connections open without an answer. */
async function openFreezer(url: string) {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let is_frozen = false;
  const server = createServer((client) => {
    sockets.add(client.on("error", () => {}));
    if (is_frozen) return;
    const forward = connect(Number(port), hostname).on("error", () => {});
    sockets.add(forward);
    client.pipe(forward).pipe(client);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const through = new URL(url);
  through.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: through.href,
    freeze() {
      is_frozen = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** These tests wait for real timeouts, so they run concurrently. */
const waiting = test.skipIf(storage.kind === "embedded").concurrent;

waiting(
  "with a database that never answers /readyz says so within its 2 s, and SIGTERM still ends the node",
  { retry: 2 },
  async () => {
    const { url, env, drop } = await createSwitchedDatabase();
    const freezer = await openFreezer(url);
    const service = startProcess({ ...env, DATABASE_URL: freezer.url, PURSER_DRAIN_SECONDS: "1" });
    const node = await service.listening;
    expect((await fetch(`${node}/readyz`)).status).toBe(200);
    freezer.freeze();
    const asked = performance.now();
    const ready = await fetch(`${node}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { status: "not ready", reason: "database_away" }]);
    expect(performance.now() - asked).toBeLessThan(4_000);
    service.signal("SIGTERM");
    expect((await service.ended).code).toBe(1);
    expect(service.stderr()).toContain("the drain is over");
    freezer.close();
    await drop();
  },
);

waiting("a node that starts while the database is away waits for it and then serves", async () => {
  const { env, goAway, comeBack, drop } = await createSwitchedDatabase();
  await goAway();
  const service = startProcess(env);
  await expect.poll(() => service.stderr()).toContain("the database is unavailable");
  await comeBack();
  expect((await fetch(`${await service.listening}/readyz`)).status).toBe(200);
  service.signal("SIGTERM");
  expect((await service.ended).code).toBe(0);
  await drop();
});

waiting("a node whose database stays away gives up after PURSER_DB_WAIT_SECONDS and gives the reason", async () => {
  const { env, goAway, drop } = await createSwitchedDatabase();
  await goAway();
  const { code, stderr } = await startProcess({ ...env, PURSER_DB_WAIT_SECONDS: "1" }).ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/the database did not answer within 1 s \(PURSER_DB_WAIT_SECONDS\)/);
  await drop();
});

/** A URL whose connections may write, although the server's default forbids it. */
const writing = (url: string) => `${url}?options=-c%20default_transaction_read_only%3Doff`;

onPostgres("with several hosts, connections go to the one that accepts writes", async () => {
  const { url, drop } = await createSwitchedDatabase();
  const standby = await startPostgres({ settings: ["default_transaction_read_only=on"] });
  const { host, pathname, username } = new URL(url);
  const hosts = `127.0.0.1:1,${new URL(standby.url("postgres")).host},${host}`;
  await runSql(writing(standby.url("postgres")), `create database ${pathname.slice(1)}`);
  const db = await openPostgres({
    url: `postgres://${username}@${hosts}${pathname}?target_session_attrs=read-write`,
    log: createLog("silent"),
  });
  const [row] = await db.query<{ port: number }>({ text: "select inet_server_port() as port" });
  expect(row?.port).toBe(Number(new URL(url).port));
  let notified = "";
  await db.listen("hosts", (payload) => {
    notified = payload;
  });
  await db.notify("hosts", "hello");
  await expect.poll(() => notified).toBe("hello");
  await db.close();
  await standby.stop();
  await drop();
});
