import { ConfigError, readConfig } from "./config.ts";
import { createLedger } from "./ledger/ledger.service.ts";
import { createSystemClock } from "./platform/clock.ts";
import { createLog } from "./platform/log.ts";
import { openDb } from "./platform/open-db.ts";

/** `npm run audit`: recomputes every balance from the ledger. Exit 0: all holds; 1: violations, or it could not look. */
async function main(): Promise<number> {
  const config = readConfig(process.env);
  const db = await openDb({ database_url: config.database_url, data_dir: config.data_dir, log: createLog("warn") });
  try {
    const report = await createLedger({ db, clock: createSystemClock() }).audit();
    for (const [what, count] of Object.entries(report.checked)) process.stdout.write(`checked ${count} ${what}\n`);
    for (const { invariant, account_id, detail } of report.violations) {
      process.stdout.write(`VIOLATION ${invariant}${account_id === null ? "" : ` of ${account_id}`}: ${detail}\n`);
    }
    process.stdout.write(report.ok ? "the ledger is in order\n" : `${report.violations.length} violations\n`);
    return report.ok ? 0 : 1;
  } finally {
    await db.close();
  }
}

main().then(
  (code) => process.exit(code),
  (error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(error instanceof ConfigError ? 2 : 1);
  },
);
