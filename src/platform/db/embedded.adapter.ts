import {
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { asDatabaseError } from "../../kernel/sql-state.ts";
import { monotonicMs } from "../lib/clock.ts";
import { threadFile } from "../lib/thread-pool.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseState } from "../telemetry/operation-metrics.ts";
import { deniedIn, getFullDisk } from "./data-folder.ts";
import type { Db, Statement } from "./db.ts";
import { knownMigrations, migrate, readSchemaState } from "./migrate.ts";
import { createOutage, PROBES } from "./outage.ts";
import { copyPrepared, isPrepared } from "./prepared-database.ts";
import { runTransaction, type SqlConnection, type SqlSource, sqlOver } from "./sql-connection.ts";

/** A question to the database thread; `values` are the parameters of a query, `name` makes it a prepared statement. */
export interface EmbeddedQuestion {
  kind: "query" | "script" | "listen" | "snapshot" | "close";
  name?: string | undefined;
  text: string;
  values?: readonly unknown[] | undefined;
  /** The statement may take longer than STUCK_MS. */
  no_timeout?: true | undefined;
}

export type EmbeddedRequest = EmbeddedQuestion & { id: number };

export type EmbeddedAnswer =
  | { kind: "ready" }
  | { kind: "failed_to_open"; message: string }
  | { kind: "rows"; id: number; rows: unknown[]; row_count: number }
  | { kind: "error"; id: number; message: string; code: string | undefined; constraint: string | undefined }
  | { kind: "notification"; channel: string; payload: string }
  | { kind: "vacuum"; begins: boolean };

type Rows = { rows: unknown[]; rowCount: number; command: string };

/** An error of the embedded database, with the same fields as an error of node-postgres. */
function databaseError(answer: { message: string; code: string | undefined; constraint: string | undefined }): Error {
  return Object.assign(new Error(answer.message), { code: answer.code, constraint: answer.constraint });
}

interface EmbeddedOptions {
  directory: string;
  log: Log;
  /** Called when the database answers no statement any more. Only a new process helps. */
  onStuck?: (() => void) | undefined;
  prepare?: ((source: SqlSource) => Promise<void>) | undefined;
  onStatement?: ((ms: number) => void) | undefined;
}

/**
 * Opens PGlite under `directory` (created when missing) in a worker thread and brings its schema up to date. Throws
 * when another process has it open, because two writers would destroy it.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<Db> {
  try {
    return await openDirectory(options);
  } catch (error) {
    // PGlite's own message for a file of another user is "undefined", and for a full disk "Aborted()".
    const folder = dirname(options.directory);
    const reason = error instanceof EmbeddedInUseError ? null : (deniedIn(folder) ?? getFullDisk(folder));
    throw reason === null ? error : new Error(`DATA_DIR: ${reason}`, { cause: error });
  }
}

async function openDirectory(options: EmbeddedOptions): Promise<Db> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const lock = lockDirectory(options.directory);
  try {
    return await openLocked(join(options.directory, "pgdata"), lock, options);
  } catch (error) {
    lock.close();
    giveToOwner(options.directory);
    throw error;
  }
}

async function openLocked(
  directory: string,
  lock: DatabaseSync,
  { log, onStuck, onStatement, prepare }: EmbeddedOptions,
): Promise<Db> {
  if (!existsSync(join(directory, "PG_VERSION"))) {
    // A caller that prepares the database itself, such as a restore, needs it empty.
    if (prepare === undefined && isPrepared()) {
      await copyPrepared(directory);
    } else {
      // Creating a new cluster takes 500 MB once. A separate thread frees this memory when it ends.
      const maker = await startThread(directory);
      await maker.ask({ kind: "close", text: "" });
    }
  }
  const thread = await startThread(directory);
  const turns = createTurns();
  const probe = (state: DatabaseState) => once(() => thread.ask({ kind: "script", text: PROBES[state] }));
  const outage = createOutage({ log, probe });
  const stopWatchdog = startWatchdog(
    thread.waitingSince,
    () => {
      if (outage.state() === "disk_full") return STUCK_ON_FULL_DISK_MS;
      return thread.isVacuuming() ? STUCK_IN_VACUUM_MS : STUCK_MS;
    },
    () => {
      log.fatal("the embedded database does not answer any more: the service exits and must be started again");
      thread.end(new Error("the embedded database does not answer any more"));
      onStuck?.();
    },
  );
  const guarded = async <T>(work: () => Promise<T>) => {
    try {
      return await work();
    } catch (error) {
      outage.failed(error);
      throw asDatabaseError(error);
    }
  };
  const connection: SqlConnection = {
    query: async <Row>({ name, text, values, no_timeout }: Statement) => {
      const result = await guarded(() => thread.ask({ kind: "query", name, text, values, no_timeout }));
      return result as Rows & { rows: Row[] };
    },
    // Migrations of a large database may take longer than STUCK_MS.
    script: async (text) => void (await guarded(() => thread.ask({ kind: "script", text, no_timeout: true }))),
    release: () => {},
  };
  const source: SqlSource = {
    connect: async () => {
      const release = await turns.take();
      return { ...connection, release };
    },
  };
  const prepareSource = prepare ?? ((source: SqlSource) => migrate(source, undefined, log));
  await prepareSource(source).catch((error: unknown) => {
    outage.close();
    stopWatchdog();
    throw error;
  });
  const is_current = prepare === undefined || (await readSchemaState(connection)).missing.length === 0;
  if (is_current) noteSchema(dirname(directory));
  const once = async <T>(work: () => Promise<T>) => {
    const release = await turns.take();
    return work().finally(release);
  };
  const sql = sqlOver(async (statement) => {
    const began_ms = monotonicMs();
    const { rows } = await once(() => connection.query<never>(statement));
    onStatement?.(monotonicMs() - began_ms);
    return rows;
  });
  return {
    ...sql,
    kind: "embedded",
    state: outage.state,
    figures: () => ({
      busy: 1 - Number(turns.waiting() === 0),
      idle: Number(turns.waiting() === 0),
      waiting: Math.max(0, turns.waiting() - 1),
    }),
    transaction: (work) => runTransaction(source, work),
    listen: (channel, heard) => once(() => thread.listen(channel, heard)),
    isListening: () => true,
    notify: async (channel, payload) => {
      await sql.query({ text: "select pg_notify($1, $2)", values: [channel, payload] });
    },
    snapshot: async (copy) => {
      await once(() => thread.ask({ kind: "snapshot", text: join(copy, "pgdata"), no_timeout: true }));
    },
    close: async () => {
      outage.close();
      stopWatchdog();
      await once(() => thread.ask({ kind: "close", text: "" }));
      lock.close();
      giveToOwner(dirname(directory));
    },
  };
}

/**
 * After a command of root: gives the files that it created to the owner of DATA_DIR. Otherwise the service, which runs as
 * that user, could not open the database any more.
 */
function giveToOwner(directory: string): void {
  const { uid, gid } = statSync(dirname(directory));
  if (process.geteuid?.() !== 0 || uid === 0) return;
  const inside = readdirSync(directory, { recursive: true, encoding: "utf8" }).map((name) => join(directory, name));
  for (const path of [join(dirname(directory), "keyring"), directory, ...inside]) {
    if (lstatSync(path, { throwIfNoEntry: false })?.uid === 0) lchownSync(path, uid, gid);
  }
}

/** Names the newest migration in a file, because `purser check` must not open the database. */
const SCHEMA_FILE = "schema";

function noteSchema(directory: string): void {
  writeFileSync(join(directory, SCHEMA_FILE), `${knownMigrations().at(-1)}\n`);
}

/** The newest migration of the embedded database in `directory`. Null: unknown. */
export function notedSchema(directory: string): string | null {
  const path = join(directory, SCHEMA_FILE);
  return existsSync(path) ? readFileSync(path, "utf8").trim() : null;
}

/** Another process has the embedded database open. */
export class EmbeddedInUseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "EmbeddedInUseError";
  }
}

/** How long to wait for another process that is stopping. */
const LOCK_WAIT_MS = 3_000;
/** SQLite's code for a lock that another process holds. */
const SQLITE_BUSY = 5;

/** Takes SQLite's file lock. The lock ends with this process, even after kill -9. */
function lockDirectory(directory: string): DatabaseSync {
  const lock = new DatabaseSync(join(directory, "lock"), { timeout: LOCK_WAIT_MS });
  try {
    lock.exec("begin exclusive");
    return lock;
  } catch (error) {
    lock.close();
    const { errcode, message } = error as Error & { errcode?: number };
    if (errcode !== SQLITE_BUSY) {
      throw new Error(`the embedded database in ${directory} cannot be locked: ${message}`, { cause: error });
    }
    throw new EmbeddedInUseError(
      `another process has the embedded database in ${directory} open: stop it, choose another DATA_DIR, or set DATABASE_URL to share one PostgreSQL server`,
    );
  }
}

/** A thread that answers nothing for this time is stuck. A PostgreSQL server may be silent for the same time. */
const STUCK_MS = 300_000;
/** On a full disk, PGlite loops without end after a failed checkpoint. */
const STUCK_ON_FULL_DISK_MS = 10_000;
/** The worker's own VACUUM of a large database takes long, and statements wait for it. */
const STUCK_IN_VACUUM_MS = 3_600_000;
const WATCHDOG_MS = 1_000;

/**
 * Calls `onStuck` once, when `waitingSince` has stayed the same for `limitMs`. It counts its checks, so a process that was
 * stopped for an hour, with a laptop that slept, does not count the hour.
 */
export function startWatchdog(
  waitingSince: () => number | null,
  limitMs: () => number,
  onStuck: () => void,
): () => void {
  let seen: number | null = null;
  let silent_ms = 0;
  const timer = setInterval(() => {
    const since = waitingSince();
    silent_ms = since !== null && since === seen ? silent_ms + WATCHDOG_MS : 0;
    seen = since;
    if (silent_ms < limitMs()) return;
    clearInterval(timer);
    onStuck();
  }, WATCHDOG_MS).unref();
  return () => clearInterval(timer);
}

async function startThread(directory: string) {
  const worker = new Worker(threadFile(import.meta.dirname, "embedded.worker"), { workerData: { directory } });
  const pending = new Map<number, { resolve(rows: Rows): void; reject(error: Error): void }>();
  const channels = new Map<string, Set<(payload: string) => void>>();
  let sequence = 0;
  let ended: Error | undefined;
  /** The time since which the oldest limited question waits for the thread. */
  let waiting_since_ms: number | null = null;
  let limited = 0;
  let is_vacuuming = false;

  const settle = (answer: Extract<EmbeddedAnswer, { id: number }>) => {
    const waiting = pending.get(answer.id);
    pending.delete(answer.id);
    if (answer.kind === "error") waiting?.reject(databaseError(answer));
    else waiting?.resolve({ rows: answer.rows, rowCount: answer.row_count, command: "" });
  };
  const setVacuuming = (begins: boolean) => {
    is_vacuuming = begins;
    if (waiting_since_ms !== null) waiting_since_ms = monotonicMs();
  };
  const end = (error: Error) => {
    ended ??= error;
    for (const waiting of pending.values()) waiting.reject(error);
    pending.clear();
  };
  await new Promise<void>((resolve, reject) => {
    worker.on("message", (answer: EmbeddedAnswer) => {
      if (answer.kind === "ready") resolve();
      else if (answer.kind === "failed_to_open")
        reject(new Error(`the embedded database did not open: ${answer.message}`));
      else if (answer.kind === "notification")
        for (const heard of channels.get(answer.channel) ?? []) heard(answer.payload);
      else if (answer.kind === "vacuum") setVacuuming(answer.begins);
      else settle(answer);
    });
    worker.on("error", (error) => {
      end(error as Error);
      reject(error);
    });
    worker.on("exit", () => end(new Error("the embedded database is closed")));
  });

  const noteAnswer = (question: EmbeddedQuestion) => {
    if (question.no_timeout) return;
    limited -= 1;
    waiting_since_ms = limited > 0 ? monotonicMs() : null;
  };
  const ask = (question: EmbeddedQuestion): Promise<Rows> => {
    if (ended !== undefined) return Promise.reject(ended);
    if (!question.no_timeout) {
      limited += 1;
      waiting_since_ms ??= monotonicMs();
    }
    return send(question).finally(() => noteAnswer(question));
  };
  const send = (question: EmbeddedQuestion): Promise<Rows> => {
    sequence += 1;
    const id = sequence;
    return new Promise((resolve, reject) => {
      pending.set(id, { resolve, reject });
      worker.postMessage({ ...question, id } satisfies EmbeddedRequest);
    });
  };
  const listen = async (channel: string, heard: (payload: string) => void) => {
    const set = channels.get(channel) ?? new Set();
    if (set.size === 0) await ask({ kind: "listen", text: channel });
    channels.set(channel, set.add(heard));
    return async () => {
      set.delete(heard);
    };
  };
  return { ask, listen, end, waitingSince: () => waiting_since_ms, isVacuuming: () => is_vacuuming };
}

/** Hands out the one connection in the order of the requests. */
function createTurns() {
  let last: Promise<void> = Promise.resolve();
  let taken = 0;
  const take = async (): Promise<() => void> => {
    const before = last;
    let release: () => void = () => {};
    taken += 1;
    last = new Promise((resolve) => {
      release = () => {
        taken -= 1;
        resolve();
      };
    });
    await before;
    return release;
  };
  /** The owner of the connection and the callers behind it. */
  return { take, waiting: () => taken };
}
