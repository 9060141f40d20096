import { createRouter, json } from "../api/contract/endpoint.ts";
import * as contract from "../api/contract/safety.ts";
import { errors } from "../kernel/errors.ts";
import { newMark } from "./fence.ts";
import { BUSY, type Sanitizers } from "./sanitizer.ts";

/** By then a longer check of another user has given up its thread (FAIR_SHARE_MS in sanitizer.ts). */
const BUSY_RETRY_S = 3;

export function safetyRoutes({ sanitizer }: { sanitizer: Sanitizers }) {
  const router = createRouter();
  router.on(contract.sanitizeContent, async (request) => {
    const { content, kind } = request.body;
    request.keeping.only_reads = true;
    const sanitized = await sanitizer
      .of(request.caller.user_id)
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
    return json({ text, verdict, removed: [...removed], ...doubtful, marker });
  });
  return router;
}
