import { createReadStream } from "node:fs";
import { PAYMENT_INVARIANTS } from "../billing/payments-audit.store.ts";
import { readConfig } from "../config.ts";
import { readExport } from "../ledger/export-file.ts";
import { createLedger } from "../ledger/ledger.service.ts";
import { verifyExport } from "../ledger/verify-export.ts";
import { createSystemClock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import { createLog } from "../platform/log.ts";
import { openDb } from "../platform/open-db.ts";
import { type Call, say } from "./command.ts";

/** `purser audit`: recomputes every balance from the ledger. With --verify, checks an exported ledger by itself. */
export function audit({ options: { verify } }: Call): Promise<number> {
  return verify === undefined ? auditDatabase() : verifyFile(verify);
}

async function auditDatabase(): Promise<number> {
  const { database_url, data_dir } = readConfig(process.env);
  const db = await openDb({ database_url, data_dir, log: createLog("warn") });
  try {
    return (await auditOf(db)) ? 0 : 1;
  } finally {
    await db.close();
  }
}

/** Audits the ledger of `db`, prints the result, and returns whether all invariants hold. */
export async function auditOf(db: Db): Promise<boolean> {
  const report = await createLedger({ db, clock: createSystemClock(), invariants: PAYMENT_INVARIANTS }).audit();
  for (const [what, count] of Object.entries(report.checked)) say(`checked ${count} ${what}`);
  for (const { invariant, account_id, detail } of report.violations) {
    say(`VIOLATION ${invariant}${account_id === null ? "" : ` of ${account_id}`}: ${detail}`);
  }
  say(report.ok ? "the ledger is in order" : `${report.violations.length} violations`);
  return report.ok;
}

async function verifyFile(file: string): Promise<number> {
  const { entries, accounts, violations } = await verifyExport(readExport(createReadStream(file, "utf8")));
  say(`checked ${entries} entries of ${accounts} accounts`);
  for (const violation of violations) say(`VIOLATION ${violation}`);
  say(violations.length === 0 ? "the export is in order" : `${violations.length} violations`);
  return violations.length === 0 ? 0 : 1;
}
