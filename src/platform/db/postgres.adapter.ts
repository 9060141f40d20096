import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import {
  asDatabaseError,
  isDatabaseAway,
  isReadOnlyServer,
  isSharedSession,
  isUnusable,
} from "../../kernel/sql-state.ts";
import { monotonicMs } from "../lib/clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseState } from "../telemetry/operation-metrics.ts";
import { createDatabaseHosts, type DatabaseHosts } from "./database-hosts.ts";
import type { Db, Reader, Statement } from "./db.ts";
import { migrate } from "./migrate.ts";
import { createOutage, PROBES } from "./outage.ts";
import { createChannels, NotificationsLostError } from "./postgres-channels.ts";
import { ROW_PARSERS } from "./row-parsers.ts";
import {
  CONNECTIONS,
  repeated,
  runTransaction,
  type SqlConnection,
  type SqlSource,
  sqlOver,
} from "./sql-connection.ts";

const READ_CONNECTIONS = 4;
const CONNECT_TIMEOUT_MS = 10_000;
/** TCP keep-alive: an idle connection is probed after this time. */
const KEEP_ALIVE_MS = 10_000;
/**
 * Timeout of a statement. After it, the connection counts as cut, because only `no_timeout` statements take this long.
 */
const ANSWER_MS = 300_000;
/** Pause between two attempts of a start while the database is away. */
const START_RETRY_MS = 500;

/** Where a client before has left prepared statements in the pooler's connections. */
const SHARED_SESSION = "a pooler gives the sessions of the database to several connections in turn";
/** The error message of node-postgres for a statement without an answer. */
const UNANSWERED = "Query read timeout";
/**
 * Set by a statement, because PgBouncer rejects them in the start of a connection. A server or a role may have another
 * format of values as its default: rows could not be read, and a copy would seem to differ from its source. With another
 * isolation, transactions that wait for each other would fail.
 */
const SESSION = [
  "set timezone = 'UTC'; set datestyle = 'ISO'; set bytea_output = 'hex'; set extra_float_digits = 1",
  "set default_transaction_isolation = 'read committed'; set idle_in_transaction_session_timeout = '60s'",
].join("; ");

const types = {
  getTypeParser: (oid: number, format?: "text" | "binary") =>
    ROW_PARSERS[oid] ?? pg.types.getTypeParser(oid, format ?? "text"),
} as pg.CustomTypesConfig;

const CONNECTION: pg.ClientConfig = {
  application_name: "purser",
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  types,
};

/**
 * Opens a PostgreSQL 15+ server, brings its schema up to date, and listens for notifications. Waits `wait_seconds` for a
 * server that is away.
 */
export async function openPostgres(options: {
  url: string;
  log: Log;
  answer_ms?: number;
  wait_seconds?: number;
  prepare?: ((source: SqlSource) => Promise<void>) | undefined;
  onStatement?: ((ms: number) => void) | undefined;
}): Promise<Db> {
  const { log, answer_ms = ANSWER_MS, wait_seconds = 0 } = options;
  const settings = CONNECTION;
  const hosts = createDatabaseHosts(options.url);
  const pool = openPool({ ...settings, max: CONNECTIONS.pool }, hosts, log);
  const calls = openPool({ ...settings, max: CONNECTIONS.hot_path, idleTimeoutMillis: 0 }, hosts, log);
  const probe = (state: DatabaseState) => pool.query(PROBES[state]);
  const outage = createOutage({ log, probe });
  const guard = createGuard(hosts, outage.failed);
  const source: SqlSource = {
    connect: async () => createConnection(await guard(() => pool.connect()), answer_ms, guard),
  };
  const end = async () => {
    outage.close();
    await calls.end();
    await pool.end();
  };
  const prepare = options.prepare ?? ((source: SqlSource) => migrate(source, undefined, log));
  await prepareWhenUp(() => prepare(source), wait_seconds).catch(async (error: unknown) => {
    await end();
    throw error;
  });
  const sql = sqlOver(async ({ hot_path, ...statement }) => {
    const began_ms = monotonicMs();
    const run = () => guard(() => (hot_path ? calls : pool).query(queryConfig(statement, answer_ms)));
    const { rows } = await repeated(run);
    options.onStatement?.(monotonicMs() - began_ms);
    return rows;
  });
  const notify = async (channel: string, payload: string) => {
    await sql.query({ name: "notify", text: "select pg_notify($1, $2)", values: [channel, payload] });
  };
  const channels = createChannels({ connect: () => openClient(settings, hosts), notify, failed: outage.failed, log });
  return {
    ...sql,
    kind: "postgres",
    state: outage.state,
    figures: () => ({ busy: pool.totalCount - pool.idleCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    transaction: (work) => runTransaction(source, work),
    listen: channels.listen,
    isListening: channels.isListening,
    notify,
    snapshot: null,
    close: async () => {
      await channels.close();
      await end();
    },
  };
}

/** Opens connections to a standby, for reads. It migrates nothing and does not wait for a server that is away. */
export function openReader(options: { url: string; log: Log }): Reader & { close(): Promise<void> } {
  const pool = openPool({ ...CONNECTION, max: READ_CONNECTIONS }, createDatabaseHosts(options.url), options.log);
  const query = async <Row>(statement: Statement) =>
    (await pool.query(queryConfig(statement, ANSWER_MS))).rows as Row[];
  return { query, close: () => pool.end() };
}

/** Migrates the database. Repeats that for `wait_seconds` while the server is away. */
async function prepareWhenUp(prepare: () => Promise<void>, wait_seconds: number): Promise<void> {
  const deadline_ms = monotonicMs() + wait_seconds * 1_000;
  for (;;) {
    try {
      return await prepare();
    } catch (error) {
      if (isUnusable(error)) {
        const { message } = error as Error;
        throw new Error(
          `the database rejects this process: ${message}. Run purser check, and correct DATABASE_URL or the rights of its user`,
          { cause: error },
        );
      }
      if (!isDatabaseAway(error) || wait_seconds === 0) throw error;
      if (monotonicMs() > deadline_ms) {
        const { message } = error as Error;
        throw new Error(
          `the database did not answer within ${wait_seconds} s (PURSER_DB_WAIT_SECONDS): ${message}. Start it, or correct DATABASE_URL`,
          { cause: error },
        );
      }
      await delay(START_RETRY_MS);
    }
  }
}

type Guard = <T>(work: () => Promise<T>) => Promise<T>;

/** Reports errors of the database, and repeats `work` on the other hosts after a failed connection. */
function createGuard(hosts: DatabaseHosts, failed: (error: unknown) => void): Guard {
  return async (work) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if (hosts.isConnectFailure(error)) {
          if (tries < hosts.count) continue;
        } else if (isReadOnlyServer(error)) hosts.leave();
        failed(error);
        if (isSharedSession(error)) throw Object.assign(new NotificationsLostError(SHARED_SESSION), { cause: error });
        throw asDatabaseError(error);
      }
    }
  };
}

function openPool(settings: pg.PoolConfig, hosts: DatabaseHosts, log: Log): pg.Pool {
  /** The pool calls it with `new`, and the client of the present host is the result. */
  function Client() {
    return prepared(hosts.createClient(settings));
  }
  const pool = new pg.Pool({ ...settings, Client: Client as unknown as new () => pg.ClientBase });
  pool.on("error", (error) => log.debug({ error }, "an idle database connection dropped"));
  return pool;
}

/** Sets the session after the connection is open. The pool's first statement follows it. */
function prepared(client: pg.Client): pg.Client {
  // A broken connection fails its current or next statement. Without a listener, its error event would end the process.
  client.on("error", () => {});
  const connect = client.connect.bind(client) as (done?: (error?: Error) => void) => Promise<void> | undefined;
  const setSession = () => void client.query(SESSION).catch(() => client.connection.stream.destroy());
  const connectAndSet = (done?: (error?: Error) => void) => {
    if (done === undefined) return connect()?.then(setSession);
    return connect((error) => {
      if (!error) setSession();
      done(error);
    });
  };
  return Object.assign(client, { connect: connectAndSet }) as pg.Client;
}

/** A client outside the pools, on the first host that accepts it. */
async function openClient(settings: pg.ClientConfig, hosts: DatabaseHosts): Promise<pg.Client> {
  for (let tries = 1; ; tries += 1) {
    const client = prepared(hosts.createClient(settings));
    try {
      await client.connect();
      return client;
    } catch (error) {
      if (tries >= hosts.count) throw asDatabaseError(error);
    }
  }
}

function queryConfig({ no_timeout, ...statement }: Statement, answer_ms: number): pg.QueryConfig {
  return (no_timeout ? statement : { ...statement, query_timeout: answer_ms }) as unknown as pg.QueryConfig;
}

function createConnection(client: pg.PoolClient, answer_ms: number, guard: Guard): SqlConnection {
  return {
    query: async <Row>(statement: Statement) => {
      const answer = client.query(queryConfig(statement, answer_ms)).catch((error: Error) => {
        // Closes the connection, so that the rollback that follows does not wait as long again.
        if (error.message === UNANSWERED || isReadOnlyServer(error)) client.connection.stream.destroy();
        throw error;
      });
      const { rows, rowCount, command } = await guard(() => answer);
      return { rows: rows as Row[], rowCount, command };
    },
    script: async (text) => {
      await guard(() => client.query(text));
    },
    release: (broken) => client.release(broken ?? false),
  };
}
