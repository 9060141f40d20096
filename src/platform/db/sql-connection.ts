import { isUndone } from "../../kernel/sql-state.ts";
import { type SpanStart, traced } from "../telemetry/tracing.ts";
import type { Sql, Statement, Tx } from "./db.ts";

/** One connection, as both adapters offer it. node-postgres calls it a pool client. */
export interface SqlConnection {
  query<Row>(statement: Statement): Promise<{ rows: Row[]; rowCount: number | null; command: string }>;
  /** Several statements without parameters: migrations. */
  script(text: string): Promise<void>;
  /** `broken` closes the connection instead of handing it back. */
  release(broken?: boolean): void;
}

/** A source of connections. Embedded storage has one connection, which callers use in turn. */
export interface SqlSource {
  connect(): Promise<SqlConnection>;
}

/** The verb and the table of a statement without a name. `update` is the verb and precedes the table, so it is read twice. */
const VERB_AND_TABLE = /^\s*(?=(\w+))(?:[^;]*?\b(?:from|into|update)\s+(\w+))?/i;

/** A statement in a trace. Its values, and so what users wrote, are not in it. */
function spanOfStatement({ name, text }: Statement): SpanStart {
  const [, verb = "", table] = name === undefined ? (VERB_AND_TABLE.exec(text) ?? []) : [];
  const summary = name ?? [verb.toLowerCase(), table].filter(Boolean).join(" ");
  const attributes = { "db.system.name": "postgresql", "db.query.summary": summary };
  return { name: summary, kind: "client", attributes };
}

/** Maximum number of retries after the server rolled work back to end a deadlock. */
const MAX_REPEATS = 3;

/**
 * Runs `work`, and retries it when the server rolled it back because of a conflict on the same rows. The rollback left
 * no effects.
 */
export async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await work();
    } catch (error) {
      if (repeats === MAX_REPEATS || !isUndone(error)) throw error;
    }
  }
}

/**
 * Runs `begin`, `work`, `commit`; runs `rollback` and rethrows when one of them throws. Always releases the connection.
 *
 * Retries a transaction that lost a deadlock.
 */
export function runTransaction<T>(source: SqlSource, work: (tx: Tx) => Promise<T>): Promise<T> {
  const start = (): SpanStart => ({
    name: "transaction",
    kind: "client",
    attributes: { "db.system.name": "postgresql", "db.operation.name": "transaction" },
  });
  return traced(start, () => repeated(() => runOnce(source, work)));
}

async function runOnce<T>(source: SqlSource, work: (tx: Tx) => Promise<T>): Promise<T> {
  const connection = await source.connect();
  const after_commit: (() => void)[] = [];
  let broken = false;
  let result: T;
  try {
    await connection.query({ text: "begin" });
    result = await work(transactionOver(connection, after_commit));
    await connection.query({ text: "commit" });
  } catch (error) {
    await connection.query({ text: "rollback" }).catch(() => {
      broken = true;
    });
    throw error;
  } finally {
    connection.release(broken);
  }
  for (const follow of after_commit) follow();
  return result;
}

function transactionOver(connection: SqlConnection, after_commit: (() => void)[]): Tx {
  return {
    ...sqlOver(async (statement) => (await connection.query<never>(statement)).rows),
    in_transaction: true,
    afterCommit: (work) => void after_commit.push(work),
  };
}

/** `Sql` whose statements run by `query`. Each has a span in its trace. */
export function sqlOver(query: Sql["query"]): Sql {
  return {
    query: <Row>(statement: Statement) =>
      traced(
        () => spanOfStatement(statement),
        () => query<Row>(statement),
      ),
  };
}

/** A node's connections to a PostgreSQL server. */
export const CONNECTIONS = {
  pool: 14,
  /** One for the ledger's batches, one for the batches of runs that begin. */
  hot_path: 2,
  listening: 1,
} as const;
/** The most connections that a node has open. */
export const NODE_CONNECTIONS = CONNECTIONS.pool + CONNECTIONS.hot_path + CONNECTIONS.listening;

/**
 * How many connections the user of this one may have to its database. Connections that the server reserves for
 * superusers and, since PostgreSQL 16, for emergencies do not count.
 */
export async function readConnectionLimit(connection: SqlConnection): Promise<number> {
  const { rows } = await connection.query<{ most: number }>({
    text: `select least(nullif(rolconnlimit, -1),
        (select nullif(datconnlimit, -1) from pg_database where datname = current_database()),
        current_setting('max_connections')::integer - case when rolsuper then 0 else
          current_setting('superuser_reserved_connections')::integer
          + coalesce(current_setting('reserved_connections', true)::integer, 0) end) as most
      from pg_roles where rolname = current_user`,
  });
  return rows[0]?.most ?? 0;
}
