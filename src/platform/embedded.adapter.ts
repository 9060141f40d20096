import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import type { Db, Statement } from "./db.ts";
import { migrate } from "./migrate.ts";
import { runTransaction, type SqlConnection, type SqlSource, sqlOver } from "./sql-connection.ts";

/** A question to the database thread; `values` are the parameters of a query. */
export interface EmbeddedQuestion {
  kind: "query" | "script" | "listen" | "close";
  text: string;
  values?: readonly unknown[] | undefined;
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

/**
 * Opens PGlite under `directory` (created when missing) in a worker thread and brings its schema up to date. Throws
 * when another process has it open, because two writers would destroy it.
 */
export async function openEmbedded(options: { directory: string }): Promise<Db> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const lock = lockDirectory(options.directory);
  try {
    return await openLocked(join(options.directory, "pgdata"), lock);
  } catch (error) {
    lock.close();
    throw error;
  }
}

async function openLocked(directory: string, lock: DatabaseSync): Promise<Db> {
  if (!existsSync(join(directory, "PG_VERSION"))) {
    // Creating a new cluster takes 500 MB once. A separate thread frees this memory when it ends.
    const maker = await startThread(directory);
    await maker.ask({ kind: "close", text: "" });
  }
  const thread = await startThread(directory);
  const turns = createTurns();
  const connection: SqlConnection = {
    query: async <Row>(statement: Statement) => {
      const result = await thread.ask({ kind: "query", text: statement.text, values: statement.values });
      return result as Rows & { rows: Row[] };
    },
    script: async (text) => {
      await thread.ask({ kind: "script", text });
    },
    release: () => {},
  };
  const source: SqlSource = {
    connect: async () => {
      const release = await turns.take();
      return { ...connection, release };
    },
  };
  await migrate(source);
  const once = async <T>(work: () => Promise<T>) => {
    const release = await turns.take();
    return work().finally(release);
  };
  const sql = sqlOver(source, (statement) => once(async () => (await connection.query<never>(statement)).rows));
  return {
    ...sql,
    kind: "embedded",
    state: () => "up",
    transaction: (work) => runTransaction(source, work),
    listen: (channel, heard) => once(() => thread.listen(channel, heard)),
    isListening: () => true,
    notify: async (channel, payload) => {
      await sql.query({ text: "select pg_notify($1, $2)", values: [channel, payload] });
    },
    close: async () => {
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

async function startThread(directory: string) {
  const worker = new Worker(join(import.meta.dirname, "embedded.worker.ts"), { workerData: { directory } });
  const pending = new Map<number, { resolve(rows: Rows): void; reject(error: Error): void }>();
  const channels = new Map<string, Set<(payload: string) => void>>();
  let sequence = 0;
  let ended: Error | undefined;

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

  const ask = (question: EmbeddedQuestion): Promise<Rows> => {
    if (ended !== undefined) return Promise.reject(ended);
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
  return { ask, listen };
}

/** Hands out the one connection in the order of the requests. */
function createTurns() {
  let last: Promise<void> = Promise.resolve();
  const take = async (): Promise<() => void> => {
    const before = last;
    let release: () => void = () => {};
    last = new Promise((resolve) => {
      release = resolve;
    });
    await before;
    return release;
  };
  return { take };
}
