import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../telemetry/log.ts";
import { loggingProgress } from "../telemetry/progress-log.ts";
import type { SqlConnection } from "./sql-connection.ts";

/** The folder beside the migrations with the indexes of large tables, each in the file of its name. */
const FOLDER = "indexes";
/** Nodes that build the same index may end each other's statement. */
const MAX_TRIES = 3;
/** A build waits for transactions that are open, such as a backup's. The start of a node must not wait for all of it. */
const WAIT_SECONDS = 20;

interface Index {
  name: string;
  text: string;
}

type IndexState = "valid" | "missing" | "broken" | "building";

/**
 * Builds the missing indexes of `migrations/indexes`, outside of any transaction. A migration that builds an index stops all
 * writes to its table until its transaction ends; here they go on. The service works without these indexes, so a failure
 * is only logged: the next start tries again.
 */
export async function buildIndexes(connection: SqlConnection, migrations: string, log?: Log): Promise<void> {
  const folder = join(migrations, FOLDER);
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith(".sql")) : [];
  for (const file of files.sort()) {
    const index = { name: file.replace(/\.sql$/, ""), text: readFileSync(join(folder, file), "utf8") };
    const error = await buildInTries(connection, index, log);
    if (error !== null) log?.warn({ index: index.name, error }, "an index was not built; the next start tries again");
  }
}

/** Resolves to the error of the last try, or null. */
async function buildInTries(connection: SqlConnection, index: Index, log: Log | undefined): Promise<unknown> {
  let error: unknown = null;
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    error = await build(connection, index, log);
    if (error === null) break;
  }
  return error;
}

/** Builds the index unless another node does. Resolves to the error if it failed. */
async function build(connection: SqlConnection, { name, text }: Index, log: Log | undefined): Promise<unknown> {
  const state = await readState(connection, name);
  if (state === "valid" || state === "building") return null;
  try {
    await connection.script(`set lock_timeout = '${WAIT_SECONDS}s'`);
    await loggingProgress(log, { step: "building an index", about: { index: name } }, async () => {
      if (state === "broken") await connection.script(`drop index concurrently if exists ${name}`);
      await connection.script(text);
    });
    return null;
  } catch (error) {
    return error;
  } finally {
    await connection.script("reset lock_timeout");
  }
}

/** `broken`: the node that built it has died, or its statement failed. Such an index is written, but not read. */
async function readState(connection: SqlConnection, name: string): Promise<IndexState> {
  const { rows } = await connection.query<{ state: IndexState }>({
    text: `select case when indisvalid then 'valid'
        when exists (select from pg_stat_progress_create_index as progress where progress.index_relid = indexrelid)
          then 'building' else 'broken' end as state
      from pg_index where indexrelid = to_regclass($1)`,
    values: [name],
  });
  return rows[0]?.state ?? "missing";
}
