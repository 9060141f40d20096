import { createReadStream } from "node:fs";
import { PAYMENT_INVARIANTS } from "../billing/payments-audit.store.ts";
import { readConfig } from "../config.ts";
import { readExport } from "../ledger/export-file.ts";
import { createLedger } from "../ledger/ledger.service.ts";
import { verifyExport } from "../ledger/verify-export.ts";
import { ACT_INVARIANTS } from "../operator/acts.store.ts";
import { createSystemClock } from "../platform/clock.ts";
import type { Db, Reader } from "../platform/db.ts";
import { createLog } from "../platform/log.ts";
import { openDb } from "../platform/open-db.ts";
import { openStandby } from "../platform/standby.ts";
import { type Call, say } from "./command.ts";

/** `purser audit`: recomputes every balance from the ledger. With --verify, checks an exported ledger by itself. */
export function audit({ options: { verify } }: Call): Promise<number> {
  return verify === undefined ? auditDatabase() : verifyFile(verify);
}

/** Reads on the standby if there is one. */
async function auditDatabase(): Promise<number> {
  const { database_url, data_dir, read_database_url: url } = readConfig(process.env);
  const log = createLog("warn");
  const db = await openDb({ database_url, data_dir, log });
  const standby = url === null ? null : openStandby({ url, db, log });
  try {
    await standby?.catchUp();
    return (await auditOf(db, async () => standby ?? db)) ? 0 : 1;
  } finally {
    await standby?.close();
    await db.close();
  }
}

/** Audits the ledger of `db`, prints the result, and returns whether all invariants hold. */
export async function auditOf(db: Db, reads: () => Promise<Reader> = async () => db): Promise<boolean> {
  const invariants = [...PAYMENT_INVARIANTS, ...ACT_INVARIANTS];
  const report = await createLedger({ db, clock: createSystemClock(), invariants, reads }).audit();
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
