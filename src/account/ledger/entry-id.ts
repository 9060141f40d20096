import type { Instant } from "../../platform/lib/instant.ts";

/**
 * An entry's id: a UUIDv7 made of its time and the first digits of its hash. The id is derived from the entry, so it
 * needs no column and no index, and an altered entry has a different id.
 */
export function entryId(entry: { created_at: Instant; hash: string }): string {
  const time = Date.parse(entry.created_at).toString(16).padStart(12, "0");
  const variant = (8 + (Number.parseInt(entry.hash.slice(3, 4), 16) % 4)).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${entry.hash.slice(0, 3)}-${variant}${entry.hash.slice(4, 7)}-${entry.hash.slice(7, 19)}`;
}
