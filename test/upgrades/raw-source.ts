import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { ROW_PARSERS } from "../../src/platform/row-parsers.ts";
import type { SqlConnection } from "../../src/platform/sql-connection.ts";

interface Place {
  database_url: string | null;
  data_dir: string;
}

/** Works on a database without a node, and returns the result. */
export async function withoutNode<T>(database: Place, work: (connection: SqlConnection) => Promise<T>): Promise<T> {
  const { connection, close } = await openRaw(database);
  try {
    return await work(connection);
  } finally {
    await close();
  }
}

/** One connection to a test's database that does not migrate it. No node may have an embedded database open meanwhile. */
export async function openRaw(database: Place) {
  const { database_url, data_dir } = database;
  if (database_url === null) {
    const pglite = await PGlite.create(join(data_dir, "database/pgdata"), { parsers: { ...ROW_PARSERS } });
    const connection: SqlConnection = {
      query: async <Row>({ text, values }: { text: string; values?: readonly unknown[] }) => {
        const { rows } = await pglite.query<Row>(text, [...(values ?? [])]);
        return { rows, rowCount: rows.length, command: "" };
      },
      script: async (text) => void (await pglite.exec(text)),
      release: () => {},
    };
    return { connection, close: () => pglite.close() };
  }
  const client = new pg.Client({ connectionString: database_url, options: "-c TimeZone=UTC" });
  // A killed server process ends the connection; its next statement reports that.
  client.on("error", () => {});
  await client.connect();
  const connection: SqlConnection = {
    query: async <Row>({ text, values }: { text: string; values?: readonly unknown[] }) => {
      const { rows, rowCount, command } = await client.query(text, [...(values ?? [])]);
      return { rows: rows as Row[], rowCount, command };
    },
    script: async (text) => void (await client.query(text)),
    release: () => {},
  };
  return { connection, close: () => client.end() };
}
