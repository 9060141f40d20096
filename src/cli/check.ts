import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkAddress } from "../api/http/listen.ts";
import { type Config, listeningError, metricsListeningError } from "../config/config.ts";
import { deniedIn } from "../platform/db/data-folder.ts";
import { notedSchema } from "../platform/db/embedded.adapter.ts";
import { knownMigrations } from "../platform/db/migrate.ts";
import { parseKeyring } from "../vault/keyring.ts";
import { checkDatabase, type Findings, schemaNote } from "./check-database.ts";
import { type Call, say } from "./command.ts";
import { checkSettings } from "./setting-faults.ts";

/** `purser start`: main.ts is the service's process, with its own signals and exit codes. */
export async function start(call: Call): Promise<number> {
  if (call.options.check !== undefined) return check(call);
  await import("./main.ts");
  return new Promise(() => {});
}

/** `purser check`: every problem as one line on stderr. It writes nothing and leaves the database as it is. */
export async function check({ options }: Call): Promise<number> {
  const { problems, notes } = await findProblems(process.env, { is_running: options.running !== undefined });
  for (const note of notes) say(note);
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (problems.length === 0) {
    say("no problems: the service can start");
    return 0;
  }
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  process.stderr.write(`${count}: correct the settings above, then check again\n`);
  return 2;
}

/** The problems of a configuration, one line for each, and notes on the rest. `is_running`: its ports may be in use. */
export async function findProblems(
  env: Readonly<Record<string, string | undefined>>,
  { is_running = false } = {},
): Promise<Findings> {
  const { config, faults, replaced } = checkSettings(env);
  if (config === null) return { problems: [...faults], notes: [] };
  const storage = await checkStorage(config, replaced);
  const problems = [...faults, ...(is_running ? [] : await portProblems(config, replaced)), ...storage.problems];
  const warnings = config.warnings.filter((warning) => !problems.includes(warning));
  return { problems, notes: [...warnings.map((warning) => `warning: ${warning}`), ...storage.notes] };
}

async function portProblems(config: Config, replaced: ReadonlySet<string>): Promise<string[]> {
  const { metrics_address } = config;
  const isFree = (address: { host: string; port: number }, explained: (error: Error) => Error) =>
    checkAddress(address).then(
      () => [],
      (error: Error) => [`${explained(error).message}. If Purser runs there with these settings, check with --running`],
    );
  return [
    ...(replaced.has("PORT") || replaced.has("HOST")
      ? []
      : await isFree(config, (error) => listeningError(error, config))),
    ...(metrics_address === null
      ? []
      : await isFree(metrics_address, (error) => metricsListeningError(error, metrics_address))),
  ];
}

async function checkStorage(config: Config, replaced: ReadonlySet<string>): Promise<Findings> {
  const { database_url, data_dir } = config;
  const keyring = replaced.has("PURSER_KEK") ? null : config.keyring;
  if (replaced.has("DATABASE_URL")) return { problems: [], notes: [] };
  if (database_url !== null) return checkDatabase(database_url, keyring);
  if (replaced.has("DATA_DIR")) return { problems: [], notes: [] };
  const denied = deniedIn(data_dir);
  if (denied !== null) return { problems: [`DATA_DIR: ${denied}`], notes: [] };
  const schema = checkSchema(join(data_dir, "database"));
  const needs_file = config.keyring === null && !replaced.has("PURSER_KEK");
  return { problems: [...schema.problems, ...(needs_file ? keyringProblems(data_dir) : [])], notes: schema.notes };
}

function checkSchema(directory: string): Findings {
  const note = (text: string): Findings => ({ problems: [], notes: [`embedded storage: ${text}`] });
  if (!existsSync(join(directory, "pgdata"))) return note("there is no database yet; the first start creates it");
  const known = knownMigrations();
  const noted = notedSchema(directory);
  if (noted === null) return note("its schema is checked at the start; it is not opened now");
  if (!known.includes(noted)) {
    const problem = `DATA_DIR: the database in ${directory} has the migration ${noted}, which this version does not know: run the version that made it, or a newer one`;
    return { problems: [problem], notes: [] };
  }
  const missing = known.length - known.indexOf(noted) - 1;
  const schema = schemaNote({ applied: known.length - missing, missing });
  return note(`${schema}; it is not opened now, so a database that was moved away is found at the start only`);
}

function keyringProblems(data_dir: string): string[] {
  const path = join(data_dir, "keyring");
  if (!existsSync(path)) {
    if (!existsSync(join(data_dir, "database", "pgdata"))) return [];
    return [
      `PURSER_KEK: it is not set, and ${path} is missing: the database needs its master key. Restore that file, or set PURSER_KEK to the key`,
    ];
  }
  try {
    parseKeyring(readFileSync(path, "utf8").trim(), process.env);
    return [];
  } catch (error) {
    return [`PURSER_KEK: ${path} cannot be used: ${(error as Error).message}. Restore the file, or set PURSER_KEK`];
  }
}
