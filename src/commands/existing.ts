import { existsSync } from "node:fs";
import { join } from "node:path";
import { hasTables } from "../backup/tables.store.ts";
import type { Db } from "../platform/db.ts";
import { createLog } from "../platform/log.ts";
import { migrate } from "../platform/migrate.ts";
import { openDb } from "../platform/open-db.ts";
import type { SqlSource } from "../platform/sql-connection.ts";
import type { RunSql } from "../platform/transfer.ts";
import { MisuseError } from "./command.ts";

/** The place of a database, as the settings have it. */
interface Place {
  readonly database_url: string | null;
  readonly data_dir: string;
}

/**
 * Opens a database that has tables, and runs `prepare` on it. Throws a MisuseError for an empty or missing one, and creates
 * none: with a wrong DATA_DIR or DATABASE_URL, a command would otherwise find an empty ledger in order.
 */
export function openExisting(
  { database_url, data_dir }: Place,
  prepare: (source: SqlSource) => Promise<void> = migrate,
): Promise<Db> {
  const place = database_url === null ? data_dir : "the database of DATABASE_URL";
  const rejected = new MisuseError(`there are no tables in ${place}: set DATA_DIR or DATABASE_URL as for the service`);
  if (database_url === null && !existsSync(join(data_dir, "database", "pgdata"))) return Promise.reject(rejected);
  const prepareExisting = async (source: SqlSource) => {
    const connection = await source.connect();
    const run: RunSql = async (statement) => (await connection.query<never>(statement)).rows;
    const has_tables = await hasTables(run).finally(() => connection.release());
    if (!has_tables) throw rejected;
    await prepare(source);
  };
  return openDb({ database_url, data_dir, log: createLog("warn"), prepare: prepareExisting });
}
