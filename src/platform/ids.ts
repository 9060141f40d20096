import { createHash } from "node:crypto";
import { v7 } from "uuid";

/**
 * A new UUIDv7, greater than every one this process made before, so "newest first" is `order by id desc`. Node's own
 * `randomUUIDv7` does not promise that: two ids of one millisecond come in either order.
 */
export function newId(): string {
  return v7();
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether `text` is any UUID; what is not can never be an id of ours. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** A UUID that is the same for the same name for ever (RFC 9562 version 8, from SHA-256). */
export function stableId(name: string): string {
  const hex = createHash("sha256").update(`purser:${name}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
