import { SCOPES } from "../../api/contract/caller.ts";
import { createRouter, type HttpRouter } from "../../api/contract/router.ts";
import { exportOwnData } from "../../api/contract/user-export.ts";
import { errors } from "../../kernel/errors.ts";
import type { ExportOf } from "./user-export.service.ts";

/** POST /api/v1/users/me/export. The file has everything, so the key needs every right to read. */
export function userExportRoutes({ exportOf }: { exportOf: ExportOf }): HttpRouter {
  const router = createRouter();
  router.openapi(exportOwnData, (c) => {
    const { user_id, scopes } = c.get("caller");
    const missing = SCOPES.find((scope) => scope.endsWith(":read") && !scopes.includes(scope));
    if (missing !== undefined) throw errors.insufficientScope(missing);
    return exportOf(user_id) as never;
  });
  return router;
}
