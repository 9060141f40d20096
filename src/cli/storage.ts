import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, ConfigError, readConfig } from "../config/config.ts";
import { type CopySource, copyRows, prepareTarget } from "../operator/backup/copy.ts";
import { analyze } from "../operator/backup/tables.store.ts";
import type { Db } from "../platform/db/db.ts";
import { bringUpToDate } from "../platform/db/migrate.ts";
import { openDb } from "../platform/db/open-db.ts";
import type { SqlSource } from "../platform/db/sql-connection.ts";
import { endTransfer } from "../platform/db/transfer.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { createDataKeys } from "../vault/data-keys.service.ts";
import { createDataKeysStore } from "../vault/data-keys.store.ts";
import { loadKeyring } from "../vault/keyring.ts";
import type { Keyring } from "../vault/keyring.types.ts";
import { runAudit } from "./audit.ts";
import { say } from "./command.ts";
import type { DatabasePlace } from "./existing.ts";

/** The settings, also if DATABASE_URL is set and PURSER_KEK is not: copying rows needs no master key. */
export function readStorage(): Pick<
  Config,
  "database_url" | "data_dir" | "admin_key" | "host" | "port" | "public_url"
> & {
  keyring: Keyring | null;
} {
  const { env } = process;
  const stand_in = `none:${Buffer.alloc(32).toString("base64")}`;
  const has_keys = env.PURSER_KEK !== undefined && env.PURSER_KEK !== "";
  const config = readConfig(has_keys ? env : { ...env, PURSER_KEK: stand_in });
  const kept = join(config.data_dir, "keyring");
  const keyring = has_keys ? config.keyring : existsSync(kept) ? loadKeyring(config.data_dir).keyring : null;
  return { ...config, keyring };
}

interface Filling {
  readonly keyring: Keyring | null;
  /** Runs `work` with the rows to copy. */
  withSource(work: (source: CopySource) => Promise<void>): Promise<void>;
  /** Runs at the end, while the target still counts as incomplete. False: the audit of the source found violations. */
  finish(): Promise<boolean>;
}

/**
 * Fills an empty database, or continues an interrupted copy. Then it upgrades the schema, checks the master keys and
 * audits the ledger. Resolves to the exit code.
 */
export async function fill(
  target: DatabasePlace,
  copied: Pick<CopySource, "id" | "name" | "migrations">,
  { keyring, withSource, finish }: Filling,
): Promise<number> {
  const found: { source?: SqlSource } = {};
  const prepare = async (connections: SqlSource) => {
    found.source = connections;
    await prepareTarget(copied)(connections);
  };
  const { database_url, data_dir } = target;
  const db = await openDb({ database_url, data_dir, log: createLog("warn"), prepare });
  try {
    await withSource((source) => copyRows(db, source, say));
    if (found.source !== undefined) await bringUpToDate(found.source);
    await analyze(db);
    const has_keys = await checkKeys(db, keyring);
    say("audit of the copy:");
    const { ok: is_in_order } = await runAudit(db);
    const is_finished = await finish();
    await endTransfer(db.query);
    return has_keys && is_in_order && is_finished ? 0 : 1;
  } finally {
    await db.close();
  }
}

/** Says which master key is missing. The rows are complete without it, and a start needs it. */
async function checkKeys(db: Db, keyring: Keyring | null): Promise<boolean> {
  if (keyring === null) {
    const needed = await createDataKeysStore(db).samples();
    if (needed.length === 0) return true;
    const ids = needed.map(({ kek_id }) => kek_id).join(", ");
    say(
      `MISSING master keys: ${ids}. PURSER_KEK is not set and DATA_DIR has no keyring. The rows are complete, and the service does not start without the keys of the source: set PURSER_KEK, or copy the file keyring to DATA_DIR`,
    );
    return false;
  }
  try {
    await createDataKeys({ db, keyring, log: createLog("silent") }).check();
    say("master keys: they open the stored secrets");
    return true;
  } catch (error) {
    say(`${(error as Error).message}. The rows are complete, and the service starts only with the keys of the source`);
    return false;
  }
}

/** Names a database without its password. */
export function describeStorage({ database_url, data_dir }: DatabasePlace): string {
  if (database_url === null) return `the embedded database in ${data_dir}`;
  // Up to the last @: a password may contain one.
  const url = /^(\w+:\/\/)(?:[^/?]*@)?([^?]*)/.exec(database_url);
  if (url === null)
    throw new ConfigError("DATABASE_URL", "it is not a URL", "postgres://user:password@host:port/database");
  return `${url[1]}${url[2]}`;
}
