import { existsSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "../config/config.ts";
import { migrate, readSchemaState } from "../platform/db/migrate.ts";
import { openDb } from "../platform/db/open-db.ts";
import type { SqlSource } from "../platform/db/sql-connection.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { createDataKeys } from "../vault/data-keys.service.ts";
import { loadKeyring, withKeyring } from "../vault/keyring.ts";
import type { Keyring } from "../vault/keyring.types.ts";
import { say } from "./command.ts";
import { openExisting } from "./existing.ts";

/**
 * Creates the master key of an embedded database that does not exist yet, as a first start does, and returns a warning. A lost
 * key is never replaced: null.
 */
export function createFirstKey(data_dir: string): string | null {
  return existsSync(join(data_dir, "database", "pgdata")) ? null : loadKeyring(data_dir).warning;
}

/** `purser migrate`: brings the schema up to date, and says what it did. */
export async function migrateDatabase(): Promise<number> {
  const { database_url, data_dir, db_wait_seconds: wait_seconds, keyring } = readConfig(process.env);
  const made = database_url === null && keyring === null ? createFirstKey(data_dir) : null;
  const prepare = async (source: SqlSource) => {
    const connection = await source.connect();
    const { missing } = await readSchemaState(connection).finally(() => connection.release());
    for (const name of missing) say(`to apply: ${name}`);
    await migrate(source);
    say(missing.length === 0 ? "the schema was up to date" : `${missing.length} migrations applied`);
  };
  const db = await openDb({ database_url, data_dir, log: createLog("warn"), wait_seconds, prepare });
  await db.close();
  if (made !== null) say(made);
  return 0;
}

/** `purser rotate-keys`: wraps every data key by the current master key. Can be interrupted and started again. */
export async function rotateKeys(): Promise<number> {
  const config = readConfig(process.env);
  const log = createLog("warn");
  const db = await openExisting(config);
  try {
    const openKeys = async ({ keyring }: { keyring: Keyring }) => {
      const keys = createDataKeys({ db, keyring, log });
      await keys.check();
      return { keys, keyring };
    };
    const { data_dir } = config;
    const opening = config.keyring === null ? withKeyring(data_dir, openKeys) : openKeys({ keyring: config.keyring });
    const { keys, keyring } = await opening;
    const { current_kek_id, rewrapped, unreadable } = await keys.rewrapAll((so_far) =>
      say(`${so_far} keys rewrapped so far`),
    );
    if (unreadable > 0) {
      throw new Error(`${rewrapped} keys rewrapped; ${unreadable} do not open: their rows were changed from outside`);
    }
    say(`done: ${rewrapped} keys rewrapped, all are under ${current_kek_id} now`);
    const others = keyring.slice(1).map(({ id }) => id);
    if (others.length > 0)
      say(
        `the database does not need ${others.join(", ")} any more; backups of before need it: keep it as long as them`,
      );
    return 0;
  } finally {
    await db.close();
  }
}
