import { realNowMs } from "./clock.ts";

const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/**
 * Seconds to wait by a Retry-After header, which holds seconds or a date. Undefined when the header is missing or
 * invalid.
 */
export function retryAfterSeconds(header: string | string[] | undefined | null): number | undefined {
  if (typeof header !== "string") return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const seconds = HTTP_DATE.test(header) ? (Date.parse(header) - realNowMs()) / 1_000 : Number.NaN;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}
