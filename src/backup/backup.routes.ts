import { Readable } from "node:stream";
import { createBackup } from "../contract/admin.ts";
import { createRouter } from "../contract/router.ts";
import type { Acts } from "../operator/acts.service.ts";
import { actorOf } from "../operator/operators.routes.ts";
import type { Db } from "../platform/db.ts";
import type { Backups } from "./backup.service.ts";

/** The operator's backup: contract 8.12. The caller has already checked the bearer key. */
export function backupRoutes({ db, acts, backups }: { db: Db; acts: Acts; backups: Backups }) {
  const router = createRouter();
  router.openapi(createBackup, async (c) => {
    const backup = backups.stream();
    const act = { what: "backup.create" as const, target: { type: "service", id: null } };
    // Nothing is sent before its act is in the log.
    await db
      .transaction((tx) => acts.record(tx, actorOf(c), act))
      .catch((error: unknown) => {
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
