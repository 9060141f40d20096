import { realNowMs } from "./clock.ts";

/** Each pause is this many times the one before. */
const FACTOR = 4;

/**
 * The pauses between tries, in the unit of `first` and `max`: `backoff({ first: 100, max: 2_000, retries: 4 })` is
 * `[100, 400, 1_600, 2_000]`. It has no jitter: a node retries one batch, one step or one delivery per receiver at a
 * time, so its retries do not come in crowds.
 */
export function backoff({ first, max, retries }: { first: number; max: number; retries: number }): readonly number[] {
  return Array.from({ length: retries }, (_, index) => Math.min(first * FACTOR ** index, max));
}

const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/**
 * Seconds to wait by a Retry-After header, which holds seconds or a date. Undefined when the header is missing or
 * invalid.
 */
export function retryAfterSeconds(header: string | string[] | undefined | null): number | undefined {
  if (typeof header !== "string") return undefined;
  if (/^\d{1,9}(?:\.\d{1,9})?$/.test(header)) return Math.ceil(Number(header));
  const seconds = HTTP_DATE.test(header) ? (Date.parse(header) - realNowMs()) / 1_000 : Number.NaN;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}
