import { join } from "node:path";
import type { Db } from "./db.ts";
import { openEmbedded } from "./embedded.adapter.ts";
import type { Log } from "./log.ts";
import { openPostgres } from "./postgres.adapter.ts";

/** Opens the configured database: PostgreSQL if a URL is set, otherwise the embedded one under `data_dir`. */
export function openDb(options: {
  database_url: string | null;
  data_dir: string;
  log: Log;
  wait_seconds?: number;
}): Promise<Db> {
  if (options.database_url !== null) return openPostgres({ ...options, url: options.database_url });
  return openEmbedded({ directory: join(options.data_dir, "database") });
}
