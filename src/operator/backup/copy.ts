import type { Db } from "../../platform/db/db.ts";
import { type AppliedMigration, createTables } from "../../platform/db/migrate.ts";
import type { SqlConnection, SqlSource } from "../../platform/db/sql-connection.ts";
import {
  advanceTransfer,
  beginTransfer,
  type RunSql,
  readTransfer,
  setTransferPhase,
  type Transfer,
} from "../../platform/db/transfer.ts";
import type { Digests } from "./archive.ts";
import { clearTable, computeDigest, hasTables, insertRows, type Table } from "./tables.store.ts";

/** The rows of a backup or of a database, for a copy. */
export interface CopySource {
  readonly id: string;
  /** Named in messages; without a password. */
  readonly name: string;
  readonly migrations: readonly AppliedMigration[];
  readonly tables: readonly Table[];
  readonly digests: Digests;
  rows(done: Readonly<Record<string, number>>): AsyncGenerator<{ table: Table; lines: string[] }, undefined>;
}

/** The target cannot take the copy, and nothing was changed. The message says why and what to do. */
export class TargetRejectedError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TargetRejectedError";
  }
}

const runOn =
  (connection: SqlConnection): RunSql =>
  async <Row>(statement: Parameters<RunSql>[0]) =>
    (await connection.query<Row>(statement)).rows;

/**
 * Prepares an empty database for the rows, or finds the interrupted copy of the same source. Throws a TargetRejectedError
 * for any other.
 */
export function prepareTarget(copied: Pick<CopySource, "id" | "name" | "migrations">) {
  return async (source: SqlSource): Promise<void> => {
    const connection = await source.connect();
    const run = runOn(connection);
    try {
      const transfer = await readTransfer(run);
      if (transfer?.id === copied.id) return;
      if (transfer !== null) {
        throw new TargetRejectedError(
          `the target has an interrupted copy from ${transfer.other}: finish that one, or empty the target`,
        );
      }
      if (await hasTables(run)) {
        throw new TargetRejectedError(
          "the target is not empty, and nothing was changed: create an empty database and name that one",
        );
      }
      await connection.query({ text: "begin" });
      await createTables(connection, copied.migrations);
      await beginTransfer(run, { id: copied.id, direction: "into", other: copied.name });
      await connection.query({ text: "commit" });
    } finally {
      connection.release();
    }
  };
}

/**
 * Copies all rows and compares the digest of each table. A batch and its progress commit together, so that the copy can
 * be killed at any moment and continues after the last batch.
 */
export async function copyRows(target: Db, source: CopySource, report: (line: string) => void): Promise<void> {
  const transfer = await readTransfer(target.query);
  if (transfer === null) throw new Error("the target has no transfer");
  if (transfer.phase !== "copying") return;
  const done: Record<string, number> = { ...transfer.progress };
  const begun = Object.values(done).reduce((sum, rows) => sum + rows, 0);
  if (begun > 0) report(`resumed: ${begun} rows were copied before`);
  for (const table of source.tables) {
    if (done[table.name] !== undefined) continue;
    await target.transaction(async (tx) => {
      await clearTable(tx, table);
      await advanceTransfer(tx.query, { table: table.name, from: null, to: 0 });
    });
    done[table.name] = 0;
  }
  for await (const { table, lines } of source.rows({ ...done })) {
    const from = done[table.name] ?? 0;
    const to = from + lines.length;
    await target.transaction(async (tx) => {
      await insertRows(tx, table, lines);
      await advanceTransfer(tx.query, { table: table.name, from, to });
    });
    done[table.name] = to;
    report(`${table.name}: ${to} of ${source.digests[table.name]?.rows} rows`);
  }
  await compare(target, source, report);
  await setTransferPhase(target.query, "verified" satisfies Transfer["phase"]);
}

async function compare(target: Db, { tables, digests }: CopySource, report: (line: string) => void): Promise<void> {
  const different: string[] = [];
  let rows = 0;
  for (const table of tables) {
    const expected = digests[table.name];
    const found = await computeDigest(target, table);
    rows += found.rows;
    if (found.rows === expected?.rows && found.digest === expected.digest) continue;
    different.push(`${table.name} (${found.rows} of ${expected?.rows} rows)`);
  }
  if (different.length > 0) {
    throw new Error(`the copy differs from its source in ${different.join(", ")}: empty the target and start again`);
  }
  report(`compared ${tables.length} tables: ${rows} rows are equal on both sides`);
}
