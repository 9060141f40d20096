import { createRouter } from "../contract/router.ts";
import * as contract from "../contract/safety.ts";
import { newMark } from "./fence.ts";
import { sanitize } from "./sanitize.ts";

export function safetyRoutes() {
  const router = createRouter();
  router.openapi(contract.sanitizeContent, (c) => {
    const { content, kind } = c.req.valid("json");
    const { text, verdict, removed, marker } = sanitize({ content, kind, level: "balanced", mark: newMark() });
    return c.json({ text, verdict, removed: [...removed], marker }, 200);
  });
  return router;
}
