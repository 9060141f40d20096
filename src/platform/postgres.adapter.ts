import pg from "pg";
import { monotonicMs } from "./clock.ts";
import type { Db, Statement } from "./db.ts";
import type { Log } from "./log.ts";
import { migrate } from "./migrate.ts";
import { ROW_PARSERS } from "./row-parsers.ts";
import { repeated, runTransaction, type SqlConnection, type SqlSource, sqlOver } from "./sql-connection.ts";

const POOL_SIZE = 14;
/** Hot-path connections: one for the ledger's batches, one for the batches of runs that begin. */
const CALL_CONNECTIONS = 2;
const RECONNECT_MS = 250;
const CONNECT_TIMEOUT_MS = 10_000;
/** TCP keep-alive: an idle connection is probed after this time. */
const KEEP_ALIVE_MS = 10_000;
/**
 * Timeout of a statement. After it, the connection counts as cut, because only `no_timeout` statements take this long.
 */
const ANSWER_MS = 300_000;
/** Heartbeat interval of the listening connection. Contract 3 gives a revocation one second. */
const HEARTBEAT_MS = 250;
/** After SILENT_MS without an answer, the connection may have missed notifications. After DEAD_MS, it is reopened. */
const SILENT_MS = 700;
const DEAD_MS = 5_000;

/** The error message of node-postgres for a statement without an answer. */
const UNANSWERED = "Query read timeout";

const types = {
  getTypeParser: (oid: number, format?: "text" | "binary") =>
    ROW_PARSERS[oid] ?? pg.types.getTypeParser(oid, format ?? "text"),
} as pg.CustomTypesConfig;

interface Listening {
  heard(payload: string): void;
  lost?: (() => void) | undefined;
}

/** Opens a PostgreSQL 15+ server, brings its schema up to date, and listens for notifications. */
export async function openPostgres(options: { url: string; log: Log; answer_ms?: number }): Promise<Db> {
  const { answer_ms = ANSWER_MS } = options;
  const settings: pg.ClientConfig = {
    connectionString: options.url,
    application_name: "purser",
    options: "-c TimeZone=UTC -c idle_in_transaction_session_timeout=60s",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    types,
  };
  const pool = openPool({ ...settings, max: POOL_SIZE }, options.log);
  const calls = openPool({ ...settings, max: CALL_CONNECTIONS, idleTimeoutMillis: 0 }, options.log);
  const source: SqlSource = { connect: async () => connectionOf(await pool.connect(), answer_ms) };
  try {
    await migrate(source);
  } catch (error) {
    await pool.end();
    throw error;
  }
  const channels = createChannels(settings, options.log);
  const sql = sqlOver(
    source,
    async ({ hot_path, ...statement }) =>
      (await repeated(() => (hot_path ? calls : pool).query(configOf(statement, answer_ms)))).rows,
  );
  return {
    ...sql,
    kind: "postgres",
    transaction: (work) => runTransaction(source, work),
    listen: channels.listen,
    isListening: channels.isListening,
    notify: async (channel, payload) => {
      await sql.query({ name: "notify", text: "select pg_notify($1, $2)", values: [channel, payload] });
    },
    close: async () => {
      await channels.close();
      await calls.end();
      await pool.end();
    },
  };
}

function openPool(settings: pg.PoolConfig, log: Log): pg.Pool {
  const pool = new pg.Pool(settings);
  pool.on("error", (error) => log.warn({ error: error.message }, "a database connection dropped"));
  // A broken connection fails its current or next statement. Without a listener, its error event would end the process.
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

function configOf({ no_timeout, ...statement }: Statement, answer_ms: number): pg.QueryConfig {
  return (no_timeout ? statement : { ...statement, query_timeout: answer_ms }) as unknown as pg.QueryConfig;
}

function connectionOf(client: pg.PoolClient, answer_ms: number): SqlConnection {
  return {
    query: async <Row>(statement: Statement) => {
      const answer = client.query(configOf(statement, answer_ms)).catch((error: Error) => {
        // Closes the connection, so that the rollback that follows does not wait as long again.
        if (error.message === UNANSWERED) client.connection.stream.destroy();
        throw error;
      });
      const { rows, rowCount, command } = await answer;
      return { rows: rows as Row[], rowCount, command };
    },
    script: async (text) => {
      await client.query(text);
    },
    release: (broken) => client.release(broken ?? false),
  };
}

interface Pulse {
  isFelt(): boolean;
}

/**
 * Sends heartbeats, because a connection can be cut silently. Destroys a connection that stays silent.
 *
 * The server sends notifications before its answers to later queries. So while answers arrive, no notification is
 * missing.
 */
function pulseOf(client: pg.Client): Pulse {
  let felt_ms = monotonicMs();
  let asking = false;
  const silence = () => monotonicMs() - felt_ms;
  const timer = setInterval(() => {
    if (asking) {
      if (silence() > DEAD_MS) client.connection.stream.destroy();
      return;
    }
    asking = true;
    const asked_ms = monotonicMs();
    const answered = () => {
      felt_ms = asked_ms;
      asking = false;
    };
    client.query("select 1").then(answered, () => clearInterval(timer));
  }, HEARTBEAT_MS);
  client.on("end", () => clearInterval(timer));
  return { isFelt: () => silence() < SILENT_MS };
}

/** One connection that only listens. When it drops, every listener's `lost` is called: notifications may be missing. */
function createChannels(settings: pg.ClientConfig, log: Log) {
  const listeners = new Map<string, Set<Listening>>();
  let connected: Promise<pg.Client> | undefined;
  let pulse: Pulse | undefined;
  let closed = false;

  const lost = () => {
    for (const set of listeners.values()) for (const listening of set) listening.lost?.();
  };
  const open = async (): Promise<pg.Client> => {
    const client = new pg.Client(settings);
    client.on("notification", (message) => {
      for (const listening of listeners.get(message.channel) ?? []) listening.heard(message.payload ?? "");
    });
    client.on("error", (error) => log.warn({ error: error.message }, "the listening connection failed"));
    await client.connect();
    const own = pulseOf(client);
    for (const channel of listeners.keys()) await client.query(`listen ${client.escapeIdentifier(channel)}`);
    pulse = own;
    client.on("end", () => {
      pulse = undefined;
      if (closed) return;
      lost();
      connected = reopen();
    });
    return client;
  };
  const reopen = async (): Promise<pg.Client> => {
    while (!closed) {
      try {
        const client = await open();
        lost(); // notifications between the drop and now were missed
        return client;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
      }
    }
    throw new Error("closed");
  };

  return {
    isListening: () => pulse?.isFelt() ?? false,
    async listen(channel: string, heard: (payload: string) => void, lostOne?: () => void) {
      const listening: Listening = { heard, lost: lostOne };
      const set = listeners.get(channel) ?? new Set();
      const isNew = set.size === 0;
      listeners.set(channel, set.add(listening));
      connected ??= open();
      const client = await connected;
      if (isNew) await client.query(`listen ${client.escapeIdentifier(channel)}`);
      return async () => {
        set.delete(listening);
      };
    },
    async close() {
      closed = true;
      await connected?.then((client) => client.end()).catch(() => {});
    },
  };
}
