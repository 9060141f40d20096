import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Db, Tx } from "../../platform/db/db.ts";
import { addMonths, startOfMonth } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import {
  type ArchiveMonth,
  archiveAlone,
  findOldest,
  findOpenMonth,
  moveRows,
  OtherArchiveError,
  planMonth,
  plannedEntries,
  plannedEvents,
  reclaimSpace,
  recordFiles,
  stayOpen,
} from "./archive.store.ts";
import {
  type AccountLine,
  archiveFileNames,
  digestFile,
  type FileLine,
  finishFile,
  type ManifestEnd,
  makeFolder,
  verifyRows,
  writePartial,
} from "./archive-file.ts";
import { entryId } from "./entry-id.ts";
import { createVerifier } from "./verify-export.ts";

interface ArchiveDeps {
  db: Db;
  /** Where the files are. */
  folder: string;
  report(line: string): void;
}

/** The start of the month `months` before that of `now`. Rows of before it belong to closed months. */
export function closedBefore(now: Instant, months: number): Instant {
  return addMonths(startOfMonth(now), -months);
}

/**
 * Moves the entries and usage events of all months that ended by `until` to files, oldest month first. It can be killed at any
 * point and repeated: the plan of a month is stored, and rows are deleted only after their files were recorded as complete.
 * Returns the months that it moved. Throws if another process archives.
 */
export async function archiveClosedMonths(deps: ArchiveDeps, until: Instant): Promise<string[]> {
  await makeFolder(deps.folder);
  return archiveAlone(deps.db, () => archiveMonths(deps, until));
}

async function archiveMonths(deps: ArchiveDeps, until: Instant): Promise<string[]> {
  const moved: string[] = [];
  for (;;) {
    const month = (await findOpenMonth(deps.db)) ?? (await planNext(deps.db, until));
    if (month === undefined) break;
    await archiveMonth(deps, month);
    moved.push(month.month.slice(0, 7));
  }
  if (moved.length > 0) await reclaimSpace(deps.db);
  return moved;
}

/**
 * Plans the oldest closed month with rows to move. An old row may have to wait for a later month: see plan-archive.sql.
 */
async function planNext(db: Db, until: Instant): Promise<ArchiveMonth | undefined> {
  const oldest = await findOldest(db);
  if (oldest === null) return undefined;
  let before = addMonths(closedBefore(oldest, 0), 1);
  for (; before <= until; before = addMonths(before, 1)) {
    if (await planMonth(db, before)) return findOpenMonth(db);
  }
  return undefined;
}

async function archiveMonth({ db, folder, report }: ArchiveDeps, month: ArchiveMonth): Promise<void> {
  const name = month.month.slice(0, 7);
  if (month.phase === "planned") {
    report(`${name}: writing ${month.entries} entries and ${month.usage_events} usage events to ${folder}`);
    await recordFiles(db, month, await writeFiles(db, folder, month));
  } else {
    report(`${name}: continuing; the files were complete`);
  }
  const written = await findOpenMonth(db);
  if (written?.month !== month.month) throw new OtherArchiveError();
  await compareFiles(folder, written);
  // Attempts that were killed leave their files.
  const partials = (await readdir(folder)).filter((file) => file.includes(name) && file.endsWith(".partial"));
  for (const partial of partials) await rm(join(folder, partial), { force: true });
  await moveRows(db, month, (rows) => report(`${name}: ${rows} rows moved`));
}

/** Writes the files of a planned month, reads them back, checks them and gives them their names. The manifest is the last. */
async function writeFiles(db: Db, folder: string, month: ArchiveMonth): Promise<FileLine[]> {
  const name = month.month.slice(0, 7);
  const names = archiveFileNames(name);
  const pathOf = (file: keyof typeof names) => join(folder, names[file]);
  const accounts: AccountLine[] = [];
  const entries = await db.transaction(async (tx) => {
    await stayOpen(tx);
    return writePartial(pathOf("entries"), entryLines(tx, accounts));
  });
  const usage_events = await db.transaction(async (tx) => {
    await stayOpen(tx);
    return writePartial(pathOf("usage_events"), eventLines(tx));
  });
  const end: ManifestEnd = {
    purser_archive: 1,
    month: name,
    before: month.before,
    accounts: accounts.length,
    files: {
      entries: { name: names.entries, rows: month.entries, ...(await digestFile(entries)) },
      usage_events: { name: names.usage_events, rows: month.usage_events, ...(await digestFile(usage_events)) },
    },
  };
  const manifest = await writePartial(pathOf("manifest"), manifestLines(accounts, end));
  const verifier = createVerifier();
  await verifyRows({ entries, usage_events, manifest }, end, verifier);
  const [violation] = verifier.result().violations;
  if (violation !== undefined) throw new Error(`${name}: ${violation}. Nothing was deleted: run purser audit`);
  const manifest_line = { name: names.manifest, rows: accounts.length + 1, ...(await digestFile(manifest)) };
  await finishFile(entries, pathOf("entries"));
  await finishFile(usage_events, pathOf("usage_events"));
  await finishFile(manifest, pathOf("manifest"));
  return [manifest_line, end.files.entries, end.files.usage_events];
}

/** The entries as JSON lines, as an export has them. Adds a line for each account to `accounts`. */
async function* entryLines(tx: Tx, accounts: AccountLine[]): AsyncGenerator<string, undefined> {
  let account: AccountLine | undefined;
  for await (const rows of plannedEntries(tx)) {
    const lines: string[] = [];
    for (const { after_seq, after_hash, after_balance, ...row } of rows) {
      const reached = { seq: row.seq, balance: row.balance_after, hash: row.hash };
      if (account?.user_id !== row.user_id) {
        const after = { seq: after_seq, balance: after_balance, hash: after_hash };
        account = { user_id: row.user_id, after, first: reached, last: reached, charged: 0, overage: 0, absorbed: 0 };
        accounts.push(account);
      }
      account.last = reached;
      if (row.type === "usage") account.charged -= row.amount;
      if (row.type === "overage") account.overage -= row.amount;
      if (row.type === "absorbed") account.absorbed -= row.amount;
      lines.push(JSON.stringify({ id: entryId(row), ...row }));
    }
    yield `${lines.join("\n")}\n`;
  }
}

async function* eventLines(tx: Tx): AsyncGenerator<string, undefined> {
  for await (const rows of plannedEvents(tx)) yield `${rows.map((row) => JSON.stringify(row)).join("\n")}\n`;
}

async function* manifestLines(accounts: readonly AccountLine[], end: ManifestEnd): AsyncGenerator<string, undefined> {
  for (const account of accounts) yield `${JSON.stringify(account)}\n`;
  yield `${JSON.stringify(end)}\n`;
}

/** Before rows are deleted: the files of the month are in the folder, unchanged. */
async function compareFiles(folder: string, { month, files }: ArchiveMonth): Promise<void> {
  if (files === null) throw new OtherArchiveError();
  for (const { name, sha256 } of files) {
    const found = await digestFile(join(folder, name)).catch(() => undefined);
    if (found?.sha256 === sha256) continue;
    throw new Error(
      `${join(folder, name)} is ${found === undefined ? "missing" : "changed"}, and ${month.slice(0, 7)} is being moved to it: name the folder that has it with --to`,
    );
  }
}
