import { Readable } from "node:stream";
import { createBackup } from "../contract/admin.ts";
import { createRouter } from "../contract/router.ts";
import type { Backups } from "./backup.service.ts";

/** The operator's backup: contract 8.12. The caller has already checked the bearer key. */
export function backupRoutes({ backups }: { backups: Backups }) {
  const router = createRouter();
  router.openapi(createBackup, () => {
    const body = Readable.toWeb(backups.stream()) as ReadableStream<Uint8Array>;
    const headers = {
      "Content-Type": "application/gzip",
      "Content-Disposition": 'attachment; filename="purser-backup.gz"',
      "Cache-Control": "no-store",
    };
    return new Response(body, { headers }) as never;
  });
  return router;
}
