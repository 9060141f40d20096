import type { Instant } from "../lib/instant.ts";

/** PostgreSQL type numbers (pg_type.oid) whose values both storages parse in the same way. */
const INT8 = 20;
const NUMERIC = 1700;
const DATE = 1082;
const TIMESTAMPTZ = 1184;

/**
 * Parses a bigint or numeric as a number. Rejects integers that a double cannot hold exactly, because token counts must
 * be exact.
 */
export function safeInteger(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new RangeError(`${text} is beyond exact integers`);
  return value;
}

/** Converts `2026-11-20 09:30:00.5+00` (session in UTC) to `2026-11-20T09:30:00.500Z`. Returns infinity unchanged. */
export function instantText(text: string): Instant {
  const match = /^(\d{4,6}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?\+00$/.exec(text);
  if (match === null) return text;
  return `${match[1]}T${match[2]}.${(match[3] ?? "").padEnd(3, "0").slice(0, 3)}Z`;
}

/** Parsers by type number, for both node-postgres and PGlite. */
export const ROW_PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  [INT8]: safeInteger,
  [NUMERIC]: safeInteger,
  [DATE]: (text) => text,
  [TIMESTAMPTZ]: instantText,
};
