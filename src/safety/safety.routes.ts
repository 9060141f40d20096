import { createRouter } from "../contract/router.ts";
import * as contract from "../contract/safety.ts";
import { errors } from "../errors.ts";
import { newMark } from "./fence.ts";
import type { Sanitizer } from "./sanitizer.ts";

export function safetyRoutes({ sanitizer }: { sanitizer: Sanitizer }) {
  const router = createRouter();
  router.openapi(contract.sanitizeContent, async (c) => {
    const { content, kind } = c.req.valid("json");
    const sanitized = await sanitizer.sanitize({ content, kind, level: "balanced", mark: newMark() });
    if (sanitized === null) {
      throw errors.invalidValue(
        "content",
        "The content could not be checked within the limits of time and memory. Send a smaller part of it.",
      );
    }
    const { text, verdict, removed, marker } = sanitized;
    return c.json({ text, verdict, removed: [...removed], marker }, 200);
  });
  return router;
}
