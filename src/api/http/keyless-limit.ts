import { errors, type PurserError } from "../../kernel/errors.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Exchange } from "./exchange.ts";

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

export type KeylessLimit = ReturnType<typeof createKeylessLimit>;

/** Limits requests of an address that prove no key. A request with a valid key never counts. */
export function createKeylessLimit(clientAddress: (exchange: Exchange) => string) {
  const requests = createTokenBuckets({ size: KEYLESS_PER_MINUTE, refill_s: 60 });
  const files = createTokenBuckets({ size: FILES_PER_MINUTE, refill_s: 60 });
  return {
    /** Counts a request whose key is missing or wrong. Returns the error to answer. */
    count(exchange: Exchange, error: PurserError): PurserError {
      const { retry_after_s } = requests.take(clientAddress(exchange));
      return retry_after_s === null ? error : errors.rateLimited(retry_after_s);
    },
    /** Counts a request that needs no key. Throws 429. */
    take(exchange: Exchange): void {
      if (PROBES.has(exchange.path)) return;
      const buckets = exchange.path.startsWith(FILES) ? files : requests;
      const { retry_after_s } = buckets.take(clientAddress(exchange));
      if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
    },
  };
}
