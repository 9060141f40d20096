import type { Context, HonoRequest, MiddlewareHandler } from "hono";
import { errors, type PurserError } from "../../kernel/errors.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { HttpEnv } from "../contract/caller.ts";

/**
 * contract 2.12.3: requests of one address per minute without a valid key. An office shares an address, and its pages read
 * the documents and the session.
 */
export const KEYLESS_PER_MINUTE = 1_200;
/** Of the console's files. A page loads about 20 of them, from memory, and browsers keep them. */
const FILES_PER_MINUTE = 6_000;
const FILES = "/assets/";
/**
 * Answering them costs less than rejecting them. A supervisor may have the address of callers, and would restart a node
 * whose probes it rejects.
 */
const PROBES = new Set(["/livez", "/readyz"]);

/** Limits requests of an address that prove no key. A request with a valid key never counts. */
export function createKeylessLimit(clientAddress: (c: Context<HttpEnv>) => string) {
  const requests = createTokenBuckets({ size: KEYLESS_PER_MINUTE, refill_s: 60 });
  const files = createTokenBuckets({ size: FILES_PER_MINUTE, refill_s: 60 });
  return {
    /** Counts a request without a valid key. Returns the error to answer. */
    count(c: Context<HttpEnv>, error: PurserError): PurserError {
      const { retry_after_s } = requests.take(clientAddress(c));
      return retry_after_s === null ? error : errors.rateLimited(retry_after_s);
    },
    /** Counts each request, except those that are counted once their key turns out to be wrong. */
    before(isCountedLater: (request: HonoRequest) => boolean): MiddlewareHandler<HttpEnv> {
      return async (c, next) => {
        const { path } = c.req;
        if (!PROBES.has(path) && !isCountedLater(c.req)) {
          const buckets = path.startsWith(FILES) ? files : requests;
          const { retry_after_s } = buckets.take(clientAddress(c));
          if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
        }
        await next();
      };
    },
  };
}
