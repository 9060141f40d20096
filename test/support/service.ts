import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { listen } from "../../src/api/http/listen.ts";
import { createApp } from "../../src/app/app.ts";
import { readConfig } from "../../src/config/config.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createLog, type Log } from "../../src/platform/telemetry/log.ts";
import { CELLS, freePort, startRouter } from "./cell-router.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { cheapPasswords } from "./passwords.ts";

export const ADMIN_KEY = "operator-key-of-the-tests";

/** An answer as the tests read it. */
export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any JSON
  body: any;
}

export interface Client {
  key: string;
  user_id: string;
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
}

export interface Service {
  url: string;
  database: TestDatabase;
  /** A request by the operator. Paths are relative to /api/v1/admin. */
  admin: Omit<Client, "key" | "user_id">;
  /** A new user with a key. Without a trial the account is empty; `tokens` grants a top-up. */
  newUser(options?: { trial?: boolean; tokens?: number }): Promise<Client>;
  as(key: string): Omit<Client, "user_id">;
  /** The last link to an address in the service's log; undefined without one. */
  linkTo(email: string): string | undefined;
  /** The fields of the log's lines of level info with this text. */
  noted(text: string): Record<string, unknown>[];
  /** The same for the lines of level warn. */
  warned(text: string): Record<string, unknown>[];
  /** Starts another node over the same database. `stop` of the service does not stop it. */
  anotherNode(): Promise<{ url: string; as: Service["as"]; stop(): Promise<void> }>;
  /** Stops the service, keeps its database, and starts it again. */
  restart(env?: Record<string, string>): Promise<void>;
  /** Stops the service, changes its database, and starts it again. */
  changeDatabase(change: (db: Db) => Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  env?: Record<string, string>;
  /** The file that PURSER_CONFIG names. */
  config?: unknown;
}

/**
 * TEST_CELLS=1: each service is a cell behind HAProxy, which forwards its users' requests. The other cell is down.
 * Operators call the cell directly, as docs/operating/cells.md says.
 */
const is_cell = process.env.TEST_CELLS === "1";
const CLOSED_ADDRESS = "http://127.0.0.1:1";
const addressOf = (port: number) => `http://127.0.0.1:${port}`;
const cellSettings = (router_port: number) => ({
  PURSER_ROUTING_BUCKETS: CELLS.a,
  PURSER_PUBLIC_URL: addressOf(router_port),
  PURSER_TRUSTED_PROXIES: "127.0.0.1/32",
});

/** A whole service in this process, on the suite's storage, listening on a free port of loopback. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const database = await createTestDatabase();
  const router_port = is_cell ? await freePort() : null;
  const fixed: Record<string, string> = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    LOG_LEVEL: "silent",
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
    ...(router_port !== null && cellSettings(router_port)),
    ...(options.config === undefined ? {} : { PURSER_CONFIG: writeConfig(database.data_dir, options.config) }),
    ...options.env,
  };
  const run = (env: Record<string, string>) => runOnce(env, kept, router_port);
  const kept: Kept = { links: new Map(), lines: [], warnings: [] };
  let running = await run(fixed);
  let sequence = 0;

  const service: Service = {
    get url() {
      return running.url;
    },
    database,
    get admin() {
      return clientOf(() => running.own_url, ADMIN_KEY);
    },
    linkTo: (email) => kept.links.get(email),
    noted: (text) => kept.lines.filter((line) => line.text.includes(text)).map(({ fields }) => fields),
    warned: (text) => kept.warnings.filter((line) => line.text.includes(text)).map(({ fields }) => fields),
    as: (key) => ({ key, ...clientOf(() => running.url, key) }),
    async newUser({ trial = true, tokens = 0 } = {}) {
      sequence += 1;
      const made = await service.admin.post("/api/v1/admin/users", { email: `user${sequence}@example.com`, trial });
      if (made.status !== 201) throw new Error(`no user: ${JSON.stringify(made.body)}`);
      const { user, api_key } = made.body;
      if (tokens > 0) {
        await service.admin.post(`/api/v1/admin/users/${user.id}/grants`, { amount_tokens: tokens, source: "top_up" });
      }
      return { user_id: user.id, ...service.as(api_key.key) };
    },
    async anotherNode() {
      const { url, stop } = await runOnce(fixed, kept, null);
      return { url, stop, as: (key) => ({ key, ...clientOf(() => url, key) }) };
    },
    async restart(env = {}) {
      await running.stop();
      running = await run({ ...fixed, ...env });
    },
    async changeDatabase(change) {
      await running.stop();
      const db = await database.open();
      await change(db).finally(() => db.close());
      running = await run(fixed);
    },
    async stop() {
      await running.stop();
      await database.drop();
    },
  };
  return service;
}

/** The lines of a log that tests read. */
interface Kept {
  /** By the recipient's address. */
  links: Map<string, string>;
  lines: { fields: Record<string, unknown>; text: string }[];
  warnings: { fields: Record<string, unknown>; text: string }[];
}

async function runOnce(env: Record<string, string>, kept: Kept, router_port: number | null) {
  const log = keeping(createLog(env.LOG_LEVEL ?? "silent"), kept);
  const app = await createApp(readConfig(env), log, cheapPasswords());
  const server = await listen(app.http, { host: "127.0.0.1", port: 0 });
  app.listeningAt(router_port === null ? server.url : addressOf(router_port));
  // The other cell is down.
  const router = router_port === null ? null : await startRouter({ a: server.url, b: CLOSED_ADDRESS }, router_port);
  const stop = async () => {
    app.beginStop();
    await server.stop();
    await app.stop();
    await router?.stop();
  };
  return { url: router?.url ?? server.url, own_url: server.url, stop };
}

/** A log that also keeps the links and the lines of the levels info and warn. */
function keeping(log: Log, { links, lines, warnings }: Kept): Log {
  const warn = (fields: { to?: string; link?: string } | string, text = "") => {
    if (typeof fields === "string") return log.warn(fields);
    if (fields.to !== undefined) links.set(fields.to, fields.link ?? "");
    warnings.push({ fields, text });
    log.warn(fields, text);
  };
  const info = (fields: Record<string, unknown> | string, text = "") => {
    if (typeof fields === "string") return log.info(fields);
    lines.push({ fields, text });
    log.info(fields, text);
  };
  return Object.assign(Object.create(log), { warn, info });
}

function writeConfig(folder: string, config: unknown): string {
  const file = join(folder, "purser.json");
  writeFileSync(file, JSON.stringify(config));
  return file;
}

function clientOf(url: () => string, key: string): Omit<Client, "key" | "user_id"> {
  const request: Client["request"] = async (method, path, body, headers = {}) => {
    const sent = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
    const type: Record<string, string> = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await fetch(`${url()}${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...type, ...headers },
      redirect: "manual",
      ...sent,
    });
    return { status: response.status, headers: response.headers, body: parse(await response.text()) };
  };
  return {
    request,
    get: (path, headers) => request("GET", path, undefined, headers),
    post: (path, body, headers) => request("POST", path, body, headers),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
