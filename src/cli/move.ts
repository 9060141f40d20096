import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../config/config.ts";
import { parseDatabaseUrl } from "../config/values.ts";
import type { Digests } from "../operator/backup/archive.ts";
import { type CopySource, TargetRejectedError } from "../operator/backup/copy.ts";
import { computeDigest, freeze, listTables, readRows, type Table } from "../operator/backup/tables.store.ts";
import type { Db } from "../platform/db/db.ts";
import { bringUpToDate, readMigrationHistory } from "../platform/db/migrate.ts";
import { openDb } from "../platform/db/open-db.ts";
import { beginTransfer, endTransfer, readTransfer, setTransferPhase } from "../platform/db/transfer.ts";
import { newId } from "../platform/lib/ids.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { runAudit } from "./audit.ts";
import { type Call, MisuseError, say } from "./command.ts";
import { describeStorage, fill, readStorage } from "./storage.ts";

/** `purser move --to URL`: copies the embedded database to PostgreSQL. Afterwards only the copy starts. */
export async function move({ options }: Call): Promise<number> {
  const storage = readStorage();
  if (storage.database_url !== null) {
    throw new MisuseError(
      "purser move copies the embedded database in DATA_DIR: unset DATABASE_URL, and name the target with --to",
    );
  }
  const { data_dir } = storage;
  if (!existsSync(join(data_dir, "database")))
    throw new MisuseError(`there is no embedded database in ${data_dir}: set DATA_DIR`);
  const source = await openDb({ database_url: null, data_dir, log: createLog("warn"), prepare: bringUpToDate });
  try {
    if (options.cancel !== undefined) return await cancel(source);
    return await moveTo(source, { ...storage, database_url: getTarget(options.to) });
  } finally {
    await source.close();
  }
}

function getTarget(url: string | undefined): string {
  if (url === undefined) throw new MisuseError("purser move needs --to postgres://user:password@host:port/database");
  try {
    return parseDatabaseUrl(url);
  } catch (error) {
    throw new ConfigError("--to", (error as Error).message, "postgres://user:password@host:port/database");
  }
}

async function cancel(source: Db): Promise<number> {
  const transfer = await readTransfer(source.query);
  if (transfer?.direction !== "out") {
    say("nothing to cancel: this database is not being moved");
    return 0;
  }
  await endTransfer(source.query);
  // A copy that is not complete cannot have been in use.
  say(
    transfer.phase === "finished"
      ? `cancelled: the service starts on embedded storage again, as it was at the move. If it has started on ${transfer.other} since then, stop it there and keep that database: its charges, payments, runs and users since the move are only there`
      : `cancelled: the service starts on embedded storage again. Delete the database ${transfer.other}`,
  );
  return 0;
}

type Storage = ReturnType<typeof readStorage> & { readonly database_url: string };

async function moveTo(source: Db, storage: Storage): Promise<number> {
  const other = describeStorage(storage);
  const before = await readTransfer(source.query);
  if (before !== null && (before.direction !== "out" || before.other !== other)) {
    throw new Error(
      before.direction === "out"
        ? `a move of this database to ${before.other} has begun: finish it, or run purser move --cancel`
        : "this database is incomplete: finish its restore first",
    );
  }
  if (before?.phase === "finished") {
    say(`this database was moved to ${other} before: nothing to do`);
    return 0;
  }
  const id = before?.id ?? newId();
  if (before === null) await beginTransfer(source.query, { id, direction: "out", other });
  say(before === null ? `moving to ${other}` : `continuing the move to ${other}`);
  const named = {
    id,
    name: describeStorage({ ...storage, database_url: null }),
    migrations: await readMigrationHistory(source.query),
  };
  const withSource = (work: (rows: CopySource) => Promise<void>) => withRows(source, named, work);
  const finish = async () => {
    say("audit of the embedded database:");
    const { ok: is_in_order } = await runAudit(source);
    await setTransferPhase(source.query, "finished");
    return is_in_order;
  };
  const code = await fill(storage, named, { keyring: storage.keyring, withSource, finish }).catch(
    async (error: Error) => {
      // The target was rejected before a row was copied: the embedded database stays in use.
      if (before === null && error instanceof TargetRejectedError) await endTransfer(source.query);
      throw error;
    },
  );
  say("moved. Start the service with DATABASE_URL set to the new database, and with the same master keys:");
  say(
    existsSync(join(storage.data_dir, "keyring"))
      ? `PURSER_KEK=file:${join(storage.data_dir, "keyring")}, better copied to a safe place`
      : "the same PURSER_KEK",
  );
  return code;
}

/** Runs `work` with one consistent state of the embedded database. */
async function withRows(
  source: Db,
  named: Pick<CopySource, "id" | "name" | "migrations">,
  work: (rows: CopySource) => Promise<void>,
): Promise<void> {
  await source.transaction(async (tx) => {
    await freeze(tx);
    const tables = await listTables(tx);
    const digests: Record<string, Digests[string]> = {};
    for (const table of tables) digests[table.name] = await computeDigest(tx, table);
    async function* rows(
      done: Readonly<Record<string, number>>,
    ): AsyncGenerator<{ table: Table; lines: string[] }, undefined> {
      for (const table of tables) {
        for await (const lines of readRows(tx, table, done[table.name])) yield { table, lines };
      }
    }
    await work({ ...named, tables, digests, rows });
  });
}
