import { Kysely, PostgresDialect, type PostgresPoolClient } from "kysely";
import type { Sql, Statement, Tx } from "./db.ts";
import { isUndone } from "./sql-state.ts";

/** One connection as both adapters offer it: what node-postgres calls a pool client. */
export interface SqlConnection {
  query<Row>(statement: Statement): Promise<{ rows: Row[]; rowCount: number | null; command: string }>;
  /** Several statements without parameters: migrations. */
  script(text: string): Promise<void>;
  /** `broken` closes the connection instead of handing it back. */
  release(broken?: boolean): void;
}

/** Where connections come from. Embedded storage has one, handed out in turn. */
export interface SqlSource {
  connect(): Promise<SqlConnection>;
}

/** Kysely over connections from `source`; never destroyed, since the adapter owns the connections. */
export function kyselyOver<Tables>(source: SqlSource): Kysely<Tables> {
  const connect = async (): Promise<PostgresPoolClient> => {
    const connection = await source.connect();
    const query = (text: unknown, values?: readonly unknown[]) => {
      if (typeof text !== "string") throw new Error("cursors are not used here");
      return connection.query<unknown>({ text, values: values ?? [] });
    };
    return { query, release: () => connection.release() } as unknown as PostgresPoolClient;
  };
  const pool = { connect, end: async () => {}, options: {} };
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
}

/** What the server has undone to end a deadlock is done anew so often before that fails. */
const MOST_REPEATS = 3;

/** `work`, again when the server has undone it because others were at the same rows: nothing of it has happened then. */
export async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await work();
    } catch (error) {
      if (repeats === MOST_REPEATS || !isUndone(error)) throw error;
    }
  }
}

/**
 * `begin`, `work`, `commit`; `rollback` and rethrow when `work` throws. The connection is handed back either way. A
 * transaction that lost a deadlock is repeated.
 */
export function runTransaction<T>(source: SqlSource, work: (tx: Tx) => Promise<T>): Promise<T> {
  return repeated(() => runOnce(source, work));
}

async function runOnce<T>(source: SqlSource, work: (tx: Tx) => Promise<T>): Promise<T> {
  const connection = await source.connect();
  let broken = false;
  try {
    await connection.query({ text: "begin" });
    const result = await work(transactionOver(connection));
    await connection.query({ text: "commit" });
    return result;
  } catch (error) {
    await connection.query({ text: "rollback" }).catch(() => {
      broken = true;
    });
    throw error;
  } finally {
    connection.release(broken);
  }
}

function transactionOver(connection: SqlConnection): Tx {
  const borrowed: SqlConnection = { ...connection, release: () => {} };
  let kysely: Kysely<unknown> | undefined;
  return {
    in_transaction: true,
    query: async <Row>(statement: Statement) => (await connection.query<Row>(statement)).rows,
    tables: <Tables>() => {
      kysely ??= kyselyOver<unknown>({ connect: async () => borrowed });
      return kysely as Kysely<Tables>;
    },
  };
}

/** `Sql` outside a transaction: every statement on a connection of its own. */
export function sqlOver(source: SqlSource, query: Sql["query"]): Sql {
  const kysely = kyselyOver<unknown>(source);
  return { query, tables: <Tables>() => kysely as Kysely<Tables> };
}
