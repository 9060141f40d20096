import type { Statement } from "./db.ts";

/**
 * A copy of a whole database that is not complete. Its record is the table `transfer` of the database itself, which
 * exists only for that time. A start rejects such a database.
 */
export interface Transfer {
  /** The same in both databases of a move. For a restore: the id of the backup. */
  readonly id: string;
  /** `into`: this database is being filled. `out`: it is being moved to another server, or was. */
  readonly direction: "into" | "out";
  /** The other database or the file, without a password. */
  readonly other: string;
  /** `verified`: all rows were compared. `finished`: the other database is the valid one now. */
  readonly phase: "copying" | "verified" | "finished";
  /** Copied rows by table. A table without an entry has not been begun. */
  readonly progress: Readonly<Record<string, number>>;
}

/** Runs one statement. A transaction's connection and a Db offer it. */
export type RunSql = <Row>(statement: Statement) => Promise<Row[]>;

/** The unfinished transfer of a database. Null: there is none. */
export async function readTransfer(run: RunSql): Promise<Transfer | null> {
  const [found] = await run<{ is_there: boolean }>({ text: "select to_regclass('transfer') is not null as is_there" });
  if (found?.is_there !== true) return null;
  const [row] = await run<Transfer>({ text: "select id, direction, other, phase, progress from transfer" });
  return row ?? null;
}

/** Records the begin of a transfer. */
export async function beginTransfer(run: RunSql, { id, direction, other }: Omit<Transfer, "phase" | "progress">) {
  await run({
    text: "create table transfer (id text primary key, direction text not null, other text not null, phase text not null default 'copying', progress jsonb not null default '{}')",
  });
  await run({
    text: "insert into transfer (id, direction, other) values ($1, $2, $3)",
    values: [id, direction, other],
  });
}

/** Adds rows of a table to the progress. Throws if another process has copied some since. */
export async function advanceTransfer(
  run: RunSql,
  { table, from, to }: { table: string; from: number | null; to: number },
) {
  const rows = await run({
    text: `update transfer set progress = jsonb_set(progress, array[$1], to_jsonb($3::bigint))
      where (progress ->> $1)::bigint is not distinct from $2::bigint returning id`,
    values: [table, from, to],
  });
  if (rows.length === 0) throw new Error("another process copies into this database: wait until it ends");
}

/** Records that a phase of the transfer has been reached. */
export async function setTransferPhase(run: RunSql, phase: Transfer["phase"]): Promise<void> {
  await run({ text: "update transfer set phase = $1", values: [phase] });
}

/** The database is complete, or a move out of it was cancelled. */
export async function endTransfer(run: RunSql): Promise<void> {
  await run({ text: "drop table transfer" });
}

/** Throws with the solution if the database is part of an unfinished transfer, or was moved away. */
export async function rejectTransfer(run: RunSql): Promise<void> {
  const transfer = await readTransfer(run);
  if (transfer === null) return;
  const { direction, other, phase } = transfer;
  if (direction === "into") {
    throw new Error(
      `the database is incomplete: the copy from ${other} was interrupted. Run the same purser restore or purser move again`,
    );
  }
  const moved = phase === "finished" ? "was moved" : "is being moved";
  throw new Error(
    `the embedded database ${moved} to ${other}: set DATABASE_URL to it${phase === "finished" ? "" : " after purser move has ended"}. To use the embedded database instead, run purser move --cancel`,
  );
}
