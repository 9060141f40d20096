import type { Kysely } from "kysely";

/** An instant of the domain: ISO 8601, UTC, always three decimals and `Z`, so that text order is time order. */
export type Instant = string;

/** One statement. A `name` makes it a prepared statement on PostgreSQL: give one to what runs on every request. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  /** It may take as long as it takes: an audit reads every table. Others fail when the server says nothing for minutes. */
  readonly unhurried?: true;
  /**
   * A statement of every call, one of its kind at a time. On PostgreSQL, outside a transaction, it goes over connections
   * that are kept for these: on one that has not had it yet it takes twenty times as long.
   */
  readonly of_calls?: boolean;
}

/**
 * What can run SQL: the database itself or one open transaction. Rows come back JSON-ready on both storages:
 * bigint as a safe-integer-checked number, timestamptz as an `Instant`, uuid and text as strings, json parsed.
 */
export interface Sql {
  query<Row>(statement: Statement): Promise<Row[]>;
  /** Kysely over the same connection, typed by the tables a store declares: `sql.tables<AgentTables>()`. */
  tables<Tables>(): Kysely<Tables>;
}

/** An open transaction. Never await anything but SQL inside one: embedded storage has a single connection. */
export interface Tx extends Sql {
  readonly in_transaction: true;
}

/** The service's one database: embedded PGlite or a PostgreSQL server, one dialect. */
export interface Db extends Sql {
  readonly kind: "embedded" | "postgres";
  /**
   * Runs `work` in one transaction; commits when it resolves, rolls back and rethrows when it throws. One that lost a
   * deadlock is run again: `work` may do nothing but SQL, and what it sets outside itself it sets anew each time.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * Calls `heard` for each NOTIFY on `channel` from any node. `lost` is called when notifications may have been
   * missed (the connection dropped, and again when it is back): drop every cache that relies on them, and keep none
   * while `isListening` is false. Resolves to the function that stops.
   */
  listen(channel: string, heard: (payload: string) => void, lost?: () => void): Promise<() => Promise<void>>;
  isListening(): boolean;
  notify(channel: string, payload: string): Promise<void>;
  close(): Promise<void>;
}
