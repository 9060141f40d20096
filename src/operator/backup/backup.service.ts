import { rmSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { conflict } from "../../kernel/purser-error.ts";
import type { Db } from "../../platform/db/db.ts";
import { openEmbedded } from "../../platform/db/embedded.adapter.ts";
import { type Clock, monotonicMs } from "../../platform/lib/clock.ts";
import { readWithin } from "../../platform/lib/read-within.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { writeArchive } from "./archive.ts";

export const backupErrors = {
  backupInProgress: () => conflict("backup_in_progress", "A backup is in progress. Start another when it has ended."),
};

const HEADERS = {
  "Content-Type": "application/gzip",
  "Content-Disposition": 'attachment; filename="purser-backup.gz"',
  "Cache-Control": "no-store",
};

interface BackupDeps {
  db: Db;
  clock: Clock;
  data_dir: string;
  log: Log;
  /** `problem`: null if there was none. */
  onEnded(problem: string | null): Promise<void>;
  stalled_ms?: number;
}

/**
 * Makes backups while the service runs. PostgreSQL reads them from a snapshot of its own. Embedded storage has one
 * connection, so its files are copied first: statements wait for the copy only, and the backup is read from it.
 */
export function createBackups({ db, clock, data_dir, log, onEnded, stalled_ms }: BackupDeps): () => Response {
  let is_running = false;
  const copy = join(data_dir, "backup-copy");
  // A process that was killed during a backup leaves its copy.
  rmSync(copy, { recursive: true, force: true });

  const openCopy = async (): Promise<Db> => {
    rmSync(copy, { recursive: true, force: true });
    const began_ms = monotonicMs();
    await db.snapshot?.(copy);
    log.info({ ms: Math.round(monotonicMs() - began_ms) }, "the database was copied for a backup");
    return openEmbedded({ directory: copy, log });
  };
  const write = async (out: PassThrough) => {
    const created_at = clock.now();
    if (db.snapshot === null) return await writeArchive(db, created_at, out);
    const copied = await openCopy();
    try {
      await writeArchive(copied, created_at, out);
    } finally {
      await copied.close();
    }
  };

  /** The answer with a backup. Its stream fails if the backup does. One at a time: 409 otherwise. */
  return function backUp(): Response {
    if (is_running) throw backupErrors.backupInProgress();
    is_running = true;
    const out = new PassThrough();
    void write(out)
      .then(() => {
        log.info("a backup was written");
        return onEnded(null);
      })
      .catch((error: Error) => {
        log.error({ error }, "a backup failed: delete its file and make another one");
        out.destroy(error);
        return onEnded(error.message);
      })
      .finally(() => {
        is_running = false;
        rmSync(copy, { recursive: true, force: true });
      });
    const source = Readable.toWeb(out) as ReadableStream<Uint8Array>;
    return new Response(readWithin(source, { stalled_ms }), { headers: HEADERS });
  };
}
