import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { monotonicMs } from "./clock.ts";
import type { Db, Statement } from "./db.ts";
import type { Log } from "./log.ts";
import { migrate } from "./migrate.ts";
import { createOutage, PROBES } from "./outage.ts";
import { runTransaction, type SqlConnection, type SqlSource, sqlOver } from "./sql-connection.ts";
import { asDatabaseError } from "./sql-state.ts";

/** A question to the database thread; `values` are the parameters of a query. */
export interface EmbeddedQuestion {
  kind: "query" | "script" | "listen" | "close";
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
  | { kind: "notification"; channel: string; payload: string };

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
  onStatement?: ((ms: number) => void) | undefined;
}

/**
 * Opens PGlite under `directory` (created when missing) in a worker thread and brings its schema up to date. Throws
 * when another process has it open, because two writers would destroy it.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<Db> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const lock = lockDirectory(options.directory);
  try {
    return await openLocked(join(options.directory, "pgdata"), lock, options);
  } catch (error) {
    lock.close();
    throw error;
  }
}

async function openLocked(
  directory: string,
  lock: DatabaseSync,
  { log, onStuck, onStatement }: EmbeddedOptions,
): Promise<Db> {
  if (!existsSync(join(directory, "PG_VERSION"))) {
    // Creating a new cluster takes 500 MB once. A separate thread frees this memory when it ends.
    const maker = await startThread(directory);
    await maker.ask({ kind: "close", text: "" });
  }
  const thread = await startThread(directory);
  const turns = createTurns();
  const script = async (text: string) => {
    await thread.ask({ kind: "script", text });
  };
  const outage = createOutage({ log, probe: (state) => once(() => script(PROBES[state])) });
  const stopWatchdog = startWatchdog(
    () => thread.silentMs() > (outage.state() === "disk_full" ? STUCK_ON_FULL_DISK_MS : STUCK_MS),
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
    query: async <Row>({ text, values, no_timeout }: Statement) => {
      const result = await guarded(() => thread.ask({ kind: "query", text, values, no_timeout }));
      return result as Rows & { rows: Row[] };
    },
    script: (text) => guarded(() => script(text)),
    release: () => {},
  };
  const source: SqlSource = {
    connect: async () => {
      const release = await turns.take();
      return { ...connection, release };
    },
  };
  await migrate(source).catch((error: unknown) => {
    outage.close();
    stopWatchdog();
    throw error;
  });
  const once = async <T>(work: () => Promise<T>) => {
    const release = await turns.take();
    return work().finally(release);
  };
  const sql = sqlOver(source, async (statement) => {
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
    close: async () => {
      outage.close();
      stopWatchdog();
      await once(() => thread.ask({ kind: "close", text: "" }));
      lock.close();
    },
  };
}

/** How long to wait for another process that is stopping. */
const LOCK_WAIT_MS = 3_000;

/** Takes SQLite's file lock. The lock ends with this process, even after kill -9. */
function lockDirectory(directory: string): DatabaseSync {
  const lock = new DatabaseSync(join(directory, "lock"), { timeout: LOCK_WAIT_MS });
  try {
    lock.exec("begin exclusive");
    return lock;
  } catch {
    lock.close();
    throw new Error(
      `another process has the embedded database in ${directory} open: stop it, choose another DATA_DIR, or set DATABASE_URL to share one PostgreSQL server`,
    );
  }
}

/** A thread that answers nothing for this time is stuck. A PostgreSQL server may be silent for the same time. */
const STUCK_MS = 300_000;
/** On a full disk, PGlite loops without end after a failed checkpoint. */
const STUCK_ON_FULL_DISK_MS = 10_000;
const WATCHDOG_MS = 1_000;

/** Calls `onStuck` once, when `isStuck` holds at two checks. After a pause of the process, answers wait to be read. */
function startWatchdog(isStuck: () => boolean, onStuck: () => void): () => void {
  let strikes = 0;
  const timer = setInterval(() => {
    strikes = isStuck() ? strikes + 1 : 0;
    if (strikes < 2) return;
    clearInterval(timer);
    onStuck();
  }, WATCHDOG_MS).unref();
  return () => clearInterval(timer);
}

async function startThread(directory: string) {
  const worker = new Worker(join(import.meta.dirname, "embedded.worker.ts"), { workerData: { directory } });
  const pending = new Map<number, { resolve(rows: Rows): void; reject(error: Error): void }>();
  const channels = new Map<string, Set<(payload: string) => void>>();
  let sequence = 0;
  let ended: Error | undefined;
  /** The time since which the oldest limited question waits for the thread. */
  let waiting_since_ms: number | null = null;
  let limited = 0;

  const settle = (answer: Extract<EmbeddedAnswer, { id: number }>) => {
    const waiting = pending.get(answer.id);
    pending.delete(answer.id);
    if (answer.kind === "error") waiting?.reject(databaseError(answer));
    else waiting?.resolve({ rows: answer.rows, rowCount: answer.row_count, command: "" });
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
      else settle(answer);
    });
    worker.on("error", (error) => {
      end(error as Error);
      reject(error);
    });
    worker.on("exit", () => end(new Error("the embedded database is closed")));
  });

  const isAnswered = (question: EmbeddedQuestion) => () => {
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
    return send(question).finally(isAnswered(question));
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
  const silentMs = () => (waiting_since_ms === null ? 0 : monotonicMs() - waiting_since_ms);
  return { ask, listen, end, silentMs };
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
