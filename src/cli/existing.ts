import { existsSync } from "node:fs";
import { join } from "node:path";
import { hasTables } from "../operator/backup/tables.store.ts";
import { deniedIn } from "../platform/db/data-folder.ts";
import type { Db } from "../platform/db/db.ts";
import { migrate, readSchemaState } from "../platform/db/migrate.ts";
import { openDb } from "../platform/db/open-db.ts";
import type { SqlSource } from "../platform/db/sql-connection.ts";
import { type RunSql, rejectTransfer } from "../platform/db/transfer.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { MisuseError } from "./command.ts";

/** The place of a database, as the settings have it. */
export interface DatabasePlace {
  readonly database_url: string | null;
  readonly data_dir: string;
}

/**
 * Opens a database that has tables, and runs `prepare` on it. Throws a MisuseError for an empty or missing one, and creates
 * none: with a wrong DATA_DIR or DATABASE_URL, a command would otherwise find an empty ledger in order. Without `prepare`, it
 * rejects a database of an older version.
 */
export function openExisting(
  { database_url, data_dir }: DatabasePlace,
  prepare: (source: SqlSource) => Promise<void> = prepareCurrent,
): Promise<Db> {
  const place = database_url === null ? data_dir : "the database of DATABASE_URL";
  const rejected = new MisuseError(`there are no tables in ${place}: set DATA_DIR or DATABASE_URL as for the service`);
  if (database_url === null && !existsSync(join(data_dir, "database", "pgdata"))) {
    const denied = existsSync(data_dir) ? deniedIn(data_dir) : null;
    return Promise.reject(denied === null ? rejected : new Error(`DATA_DIR: ${denied}`));
  }
  const prepareExisting = async (source: SqlSource) => {
    const connection = await source.connect();
    const run: RunSql = async (statement) => (await connection.query<never>(statement)).rows;
    const has_tables = await hasTables(run).finally(() => connection.release());
    if (!has_tables) throw rejected;
    await prepare(source);
  };
  return openDb({ database_url, data_dir, log: createLog("warn"), prepare: prepareExisting });
}

/** Throws unless `place` has a database of this version. Opens it for that, and changes no row. */
export async function requireExisting(place: DatabasePlace): Promise<void> {
  const db = await openExisting(place);
  await db.close();
}

/** Brings the SQL functions up to date. A migration cannot be undone, so only a start and `purser migrate` apply one. */
async function prepareCurrent(source: SqlSource): Promise<void> {
  const connection = await source.connect();
  try {
    await rejectTransfer((statement) => connection.query<never>(statement).then(({ rows }) => rows));
    const { missing } = await readSchemaState(connection);
    if (missing.length > 0) {
      throw new Error(
        `the database is of an older version: it lacks ${missing.join(", ")}. Run this command with the version of the service, or back up and upgrade with purser migrate. Nothing was changed`,
      );
    }
  } finally {
    connection.release();
  }
  await migrate(source);
}
