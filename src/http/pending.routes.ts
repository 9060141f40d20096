import { pendingRoutes } from "../contract/pending.ts";
import { createRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";

/** Answers plainly for what is promised but not there yet, so that nobody takes a missing feature for a wrong path. */
export function pendingEndpoints() {
  const router = createRouter();
  for (const { what, route } of pendingRoutes) {
    router.openapi(route, () => {
      throw errors.notAvailableYet(what);
    });
  }
  return router;
}
