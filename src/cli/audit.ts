import { createReadStream, existsSync } from "node:fs";
import { join } from "node:path";
import { PAYMENT_INVARIANTS } from "../account/billing/payments-audit.store.ts";
import { archivedEnds, findOpenMonth, listMonths } from "../account/ledger/archive.store.ts";
import { digestFile, verifyArchive } from "../account/ledger/archive-file.ts";
import { readExport } from "../account/ledger/export-file.ts";
import { createLedger } from "../account/ledger/ledger.service.ts";
import type { AuditReport } from "../account/ledger/ledger.types.ts";
import { createVerifier, type Verification, verifyExport } from "../account/ledger/verify-export.ts";
import { ACTION_INVARIANTS } from "../agents/runs/actions.store.ts";
import { readConfig } from "../config/config.ts";
import { ACT_INVARIANTS } from "../operator/acts.store.ts";
import { auditProblem, createUpkeep } from "../operator/upkeep.store.ts";
import type { Db, Reader } from "../platform/db/db.ts";
import { openStandby } from "../platform/db/standby.ts";
import { createSystemClock } from "../platform/lib/clock.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { type Call, MisuseError, say } from "./command.ts";
import { openExisting } from "./existing.ts";

/** `purser audit`: recomputes every balance from the ledger. With --verify, checks files without a database. */
export async function audit({ options: { archive }, files }: Call): Promise<number> {
  if (files.length > 0 && archive !== undefined) {
    throw new MisuseError("purser audit takes --verify or --archive, not both: --verify needs no database");
  }
  return files.length > 0 ? verifyFiles(files) : auditDatabase(archive);
}

/** Reads on the standby if there is one. */
async function auditDatabase(archive: string | undefined): Promise<number> {
  const { database_url, data_dir, read_database_url: url } = readConfig(process.env);
  const log = createLog("warn");
  const db = await openExisting({ database_url, data_dir });
  const standby = url === null ? null : openStandby({ url, db, log });
  try {
    await standby?.catchUp();
    const has_archive = archive === undefined || (await compareArchive(standby ?? db, archive));
    const report = await runAudit(db, async () => standby ?? db);
    await createUpkeep({ db, clock: createSystemClock(), log }).ended("audit", auditProblem(report));
    return report.ok && has_archive ? 0 : 1;
  } finally {
    await standby?.close();
    await db.close();
  }
}

/** Audits the ledger of `db`, prints the result, and returns it. */
export async function runAudit(db: Db, reads: () => Promise<Reader> = async () => db): Promise<AuditReport> {
  const invariants = [...PAYMENT_INVARIANTS, ...ACT_INVARIANTS, ...ACTION_INVARIANTS];
  const report = await createLedger({ db, clock: createSystemClock(), invariants, reads }).audit();
  for (const [what, count] of Object.entries(report.checked)) say(`checked ${count} ${what}`);
  for (const { invariant, account_id, detail } of report.violations) {
    say(`VIOLATION ${invariant}${account_id === null ? "" : ` of ${account_id}`}: ${detail}`);
  }
  say(report.ok ? "the ledger is in order" : `${report.violations.length} violations`);
  return report;
}

/** Checks exports and archived months. An account's chain continues from file to file, in the order of the files. */
async function verifyFiles(files: readonly string[]): Promise<number> {
  const verifier = createVerifier();
  for (const file of files) {
    if (file.endsWith(".jsonl")) await verifyArchive(file, verifier);
    else await verifyExport(readExport(createReadStream(file, "utf8")), verifier);
  }
  const is_in_order = sayVerified(verifier.result());
  say(is_in_order ? `the ${files.length === 1 ? "export is" : "files are"} in order` : "the files have violations");
  return is_in_order ? 0 : 1;
}

function sayVerified({ entries, accounts, begin_later, violations }: Verification): boolean {
  say(`checked ${entries} entries of ${accounts} accounts`);
  if (begin_later > 0) say(`${begin_later} accounts begin in months of before these files: name those files first`);
  for (const violation of violations) say(`VIOLATION ${violation}`);
  return violations.length === 0;
}

/** Checks all months of the archive in `folder`, and that each chain and each file is the one of the database. */
async function compareArchive(db: Reader, folder: string): Promise<boolean> {
  // The chains of a month that is being moved end in its files for some accounts, and in the database for others.
  if ((await findOpenMonth(db))?.phase === "written") {
    say("an archive is under way, so the files cannot be compared yet: run purser archive again, then repeat");
    return false;
  }
  const verifier = createVerifier();
  const months = await listMonths(db);
  for (const { month, files } of months) {
    const [manifest] = files ?? [];
    const path = join(folder, manifest?.name ?? "");
    if (!existsSync(path)) {
      verifier.violation(`${path} is missing: ${month.slice(0, 7)} was archived to it`);
      continue;
    }
    if ((await digestFile(path)).sha256 !== manifest?.sha256)
      verifier.violation(`${path} is not the file that was written`);
    await verifyArchive(path, verifier);
  }
  for await (const accounts of archivedEnds(db)) {
    for (const { user_id, seq, hash } of accounts) {
      const last = verifier.endOf(user_id);
      if (last.seq === seq && last.hash === hash) continue;
      verifier.violation(`${user_id}: the database follows on entry ${seq}, the archive ends with ${last.seq}`);
    }
  }
  const is_in_order = sayVerified(verifier.result());
  say(
    `${months.length} archived months: ${is_in_order ? "each chain continues in the database" : "see the violations"}`,
  );
  return is_in_order;
}
