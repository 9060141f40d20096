import type { DatabaseFigures, DatabaseState } from "../telemetry/operation-metrics.ts";
/** One SQL statement. A `name` makes it a prepared statement; name the statements that run on every request. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  /**
   * No timeout, for example for an audit that reads every table. Other statements fail when the server is silent for
   * minutes.
   */
  readonly no_timeout?: true;
  /**
   * A hot-path statement that every call runs, one at a time of each kind. Outside a transaction, PostgreSQL runs it on
   * reserved connections, because its first run on a connection takes twenty times as long.
   */
  readonly hot_path?: boolean;
}

/**
 * Runs SQL on the database or inside one open transaction. Rows are JSON-ready on both storages: bigint as a number
 * (checked to be a safe integer), timestamptz as an `Instant`, uuid and text as strings, json parsed.
 */
export interface Sql {
  query<Row>(statement: Statement): Promise<Row[]>;
}

/** Runs statements that only read. */
export type Reader = Sql;

/** An open transaction. Await only SQL inside it, because embedded storage has a single connection. */
export interface Tx extends Sql {
  readonly in_transaction: true;
  /** Calls `work` after the commit, and never after a rollback. It may not throw. */
  afterCommit(work: () => void): void;
}

/** Work of another module in the transaction of a change. It gets the result of the change, and runs only SQL. */
export type InSameTx<Result> = (tx: Tx, result: Result) => Promise<void>;

/** The service's one database: embedded PGlite or a PostgreSQL server, one dialect. */
export interface Db extends Sql {
  readonly kind: "embedded" | "postgres";
  /** The last known state. It asks nothing. */
  state(): DatabaseState;
  figures(): DatabaseFigures;
  /**
   * Runs `work` in one transaction. Commits when `work` resolves; rolls back and rethrows when it throws.
   *
   * Retries a transaction that lost a deadlock. So `work` may only run SQL, and each try must set its outside variables
   * again.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * Calls `heard` for each NOTIFY on `channel` from any node. Resolves to a function that stops listening.
   *
   * Calls `lost` when notifications may have been missed: when the connection drops, and again when it is back. Then
   * drop every cache that relies on them, and cache nothing while `isListening` is false.
   */
  listen(channel: string, heard: (payload: string) => void, lost?: () => void): Promise<() => Promise<void>>;
  isListening(): boolean;
  notify(channel: string, payload: string): Promise<void>;
  /**
   * Copies embedded storage to a new directory, from which it can be opened. Other statements wait for that time. Null:
   * the server has its own means.
   */
  readonly snapshot: ((directory: string) => Promise<void>) | null;
  close(): Promise<void>;
}
