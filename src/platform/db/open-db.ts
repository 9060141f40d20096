import { join } from "node:path";
import type { Log } from "../telemetry/log.ts";
import type { Db } from "./db.ts";
import { openEmbedded } from "./embedded.adapter.ts";
import { openPostgres } from "./postgres.adapter.ts";
import type { SqlSource } from "./sql-connection.ts";

interface DatabaseOptions {
  database_url: string | null;
  data_dir: string;
  log: Log;
  /** How long to wait for a PostgreSQL server that is away. */
  wait_seconds?: number;
  /** Called when embedded storage needs a new process. */
  onStuck?: (() => void) | undefined;
  /** Runs before the first statement instead of the migrations. */
  prepare?: ((source: SqlSource) => Promise<void>) | undefined;
  /** Called with the time of each statement outside transactions. */
  onStatement?: ((ms: number) => void) | undefined;
}

/** Opens the configured database: PostgreSQL if a URL is set, otherwise the embedded one under `data_dir`. */
export function openDb({ database_url, data_dir, ...options }: DatabaseOptions): Promise<Db> {
  if (database_url !== null) return openPostgres({ ...options, url: database_url });
  return openEmbedded({ ...options, directory: join(data_dir, "database") });
}
