import { createRouter } from "../api/contract/router.ts";
import * as contract from "../api/contract/safety.ts";
import { errors } from "../kernel/errors.ts";
import { newMark } from "./fence.ts";
import { BUSY, type Sanitizers } from "./sanitizer.ts";

/** By then a longer check of another user has given up its thread (FAIR_SHARE_MS in sanitizer.ts). */
const BUSY_RETRY_S = 3;

export function safetyRoutes({ sanitizer }: { sanitizer: Sanitizers }) {
  const router = createRouter();
  router.openapi(contract.sanitizeContent, async (c) => {
    const { content, kind } = c.req.valid("json");
    c.set("only_reads", true);
    const sanitized = await sanitizer
      .of(c.get("caller").user_id)
      .sanitize({ content, kind, level: "balanced", mark: newMark() });
    if (sanitized === BUSY) throw errors.overloaded(BUSY_RETRY_S);
    if (sanitized === null) {
      throw errors.invalidValue(
        "content",
        "The content could not be checked within the limits of time and memory. Send a smaller part of it.",
      );
    }
    const { text, verdict, removed, marked, marker } = sanitized;
    const doubtful = marked.length === 0 ? {} : { marked: [...marked] };
    return c.json({ text, verdict, removed: [...removed], ...doubtful, marker }, 200);
  });
  return router;
}
