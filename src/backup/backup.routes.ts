import { Readable } from "node:stream";
import type { Context } from "hono";
import { createBackup } from "../contract/admin.ts";
import type { HttpEnv } from "../contract/caller.ts";
import { createRouter } from "../contract/router.ts";
import type { Backups } from "./backup.service.ts";

/** The operator's backup: contract 8.12. The caller has already checked the bearer key. */
export function backupRoutes({ backups, record }: { backups: Backups; record(c: Context<HttpEnv>): Promise<void> }) {
  const router = createRouter();
  router.openapi(createBackup, async (c) => {
    const backup = backups.stream();
    // Nothing is sent before its act is in the log.
    await record(c).catch((error: unknown) => {
      backup.destroy();
      throw error;
    });
    const body = Readable.toWeb(backup) as ReadableStream<Uint8Array>;
    const headers = {
      "Content-Type": "application/gzip",
      "Content-Disposition": 'attachment; filename="purser-backup.gz"',
      "Cache-Control": "no-store",
    };
    return new Response(body, { headers }) as never;
  });
  return router;
}
