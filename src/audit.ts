import { createReadStream } from "node:fs";
import { parseArgs } from "node:util";
import { PAYMENT_INVARIANTS } from "./billing/payments-audit.store.ts";
import { ConfigError, readConfig } from "./config.ts";
import { readExport } from "./ledger/export-file.ts";
import { createLedger } from "./ledger/ledger.service.ts";
import { verifyExport } from "./ledger/verify-export.ts";
import { ACT_INVARIANTS } from "./operator/acts.store.ts";
import { createSystemClock } from "./platform/clock.ts";
import { createLog } from "./platform/log.ts";
import { openDb } from "./platform/open-db.ts";
import { openStandby } from "./platform/standby.ts";

/**
 * `npm run audit`: recomputes every balance from the ledger, on the standby if there is one. `npm run audit -- --verify export.csv`: checks an exported
 * ledger by itself, without the service or its database. Exit 0: all holds; 1: violations, or it could not look; 2: it
 * was called wrongly.
 */
function main(): Promise<number> {
  const { verify } = parseArgs({ options: { verify: { type: "string" } } }).values;
  return verify === undefined ? audit() : check(verify);
}

async function audit(): Promise<number> {
  const config = readConfig(process.env);
  const log = createLog("warn");
  const db = await openDb({ database_url: config.database_url, data_dir: config.data_dir, log });
  const url = config.read_database_url;
  const standby = url === null ? null : openStandby({ url, db, log });
  try {
    await standby?.catchUp();
    const reads = async () => standby ?? db;
    const invariants = [...PAYMENT_INVARIANTS, ...ACT_INVARIANTS];
    const ledger = createLedger({ db, clock: createSystemClock(), invariants, reads });
    const report = await ledger.audit();
    for (const [what, count] of Object.entries(report.checked)) process.stdout.write(`checked ${count} ${what}\n`);
    for (const { invariant, account_id, detail } of report.violations) {
      process.stdout.write(`VIOLATION ${invariant}${account_id === null ? "" : ` of ${account_id}`}: ${detail}\n`);
    }
    process.stdout.write(report.ok ? "the ledger is in order\n" : `${report.violations.length} violations\n`);
    return report.ok ? 0 : 1;
  } finally {
    await standby?.close();
    await db.close();
  }
}

async function check(file: string): Promise<number> {
  const { entries, accounts, violations } = await verifyExport(readExport(createReadStream(file, "utf8")));
  process.stdout.write(`checked ${entries} entries of ${accounts} accounts\n`);
  for (const violation of violations) process.stdout.write(`VIOLATION ${violation}\n`);
  process.stdout.write(violations.length === 0 ? "the export is in order\n" : `${violations.length} violations\n`);
  return violations.length === 0 ? 0 : 1;
}

async function run(): Promise<void> {
  try {
    process.exitCode = await main();
  } catch (error) {
    const is_misuse = error instanceof ConfigError || (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = is_misuse ? 2 : 1;
  }
}

await run();
// Nothing is left to wait for; a database's worker thread must not keep the process.
process.exit();
