import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { dumpSchema } from "../../migrations/schema.ts";
import { ROW_PARSERS } from "../../src/platform/db/row-parsers.ts";
import type { SqlConnection } from "../../src/platform/db/sql-connection.ts";
import type { TestDatabase } from "./database.ts";

/** Works on a database without a node. No node may have an embedded database open meanwhile. */
export async function withoutNode<T>(
  { database_url, data_dir }: Pick<TestDatabase, "database_url" | "data_dir">,
  work: (connection: SqlConnection) => Promise<T>,
): Promise<T> {
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
    return work(connection).finally(() => pglite.close());
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
  return work(connection).finally(() => client.end());
}

/** Schema, history of migrations and rows of a database that no node has open. */
export function stateOf(database: TestDatabase) {
  return withoutNode(database, async (connection) => {
    const query = async <Row>(statement: { text: string }) => (await connection.query<Row>(statement)).rows;
    const history = await query<{ name: string; sha256: string; applied_at: string }>({
      text: `select name, sha256, applied_at::text from schema_migration order by name collate "C"`,
    });
    const tables = await query<{ name: string }>({
      text: `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
        and relname not in ('schema_migration', 'sql_definition')`,
    });
    const each = tables.map(({ name }) => `select '${name}' as name, to_jsonb(t) as row from ${name} t`);
    const all = await query<{ name: string; row: Record<string, unknown> }>({
      text: `${each.join(" union all ")} order by name, row`,
    });
    const rows: Record<string, Record<string, unknown>[]> = Object.fromEntries(tables.map(({ name }) => [name, []]));
    for (const { name, row } of all) rows[name]?.push(row);
    return { schema: await dumpSchema({ query }), history, rows };
  });
}
