import { SCOPES } from "../../api/contract/caller.ts";
import { createRouter, type Router, webAnswer } from "../../api/contract/endpoint.ts";
import { exportOwnData } from "../../api/contract/user-export.ts";
import { httpErrors } from "../../api/http/errors.ts";
import type { ExportOf } from "./user-export.service.ts";

/** POST /api/v1/users/me/export. The file has everything, so the key needs every right to read. */
export function userExportRoutes({ exportOf }: { exportOf: ExportOf }): Router {
  const router = createRouter();
  router.on(exportOwnData, (request) => {
    const { user_id, scopes } = request.caller;
    const missing = SCOPES.find((scope) => scope.endsWith(":read") && !scopes.includes(scope));
    if (missing !== undefined) throw httpErrors.insufficientScope(missing);
    return webAnswer(exportOf(user_id));
  });
  return router;
}
