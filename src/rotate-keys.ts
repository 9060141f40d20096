import { ConfigError, readConfig } from "./config.ts";
import { createLog } from "./platform/log.ts";
import { openDb } from "./platform/open-db.ts";
import { createDataKeys } from "./vault/data-keys.service.ts";
import { KeyringError, loadKeyring } from "./vault/keyring.ts";

/**
 * `npm run rotate-keys`: wraps every data key by the current master key, the first of PURSER_KEK; afterwards the others
 * may be taken away. Can be broken off at any point and begun again. Exit 0: done; 1: it could not; 2: a setting cannot
 * be used.
 */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = createLog("warn");
  const keyring = config.keyring ?? loadKeyring(config.data_dir).keyring;
  const db = await openDb({ database_url: config.database_url, data_dir: config.data_dir, log });
  try {
    const keys = createDataKeys({ db, keyring, log });
    await keys.check();
    const { current_kek_id, rewrapped, unreadable } = await keys.rewrapAll((so_far) =>
      process.stdout.write(`${so_far} keys rewrapped so far\n`),
    );
    if (unreadable > 0) {
      throw new Error(`${rewrapped} keys rewrapped; ${unreadable} do not open: their rows were changed from outside`);
    }
    process.stdout.write(`done: ${rewrapped} keys rewrapped, all are under ${current_kek_id} now\n`);
    const others = keyring.slice(1).map(({ id }) => id);
    if (others.length > 0) process.stdout.write(`nothing needs ${others.join(", ")} any more\n`);
  } finally {
    await db.close();
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = error instanceof ConfigError || error instanceof KeyringError ? 2 : 1;
}
// Nothing is left to wait for; a database's worker thread must not keep the process.
process.exit();
