import { createHash, randomFillSync } from "node:crypto";
import { v7 } from "uuid";

/** Random bytes are asked for by the hundreds of ids: one request for each takes longer than all the rest of it. */
const random = new Uint8Array(4_096);
const RANDOM_BYTES = 16;
let used = random.length;
let last = { msecs: 0, seq: 0 };

/**
 * A new UUIDv7, greater than every one this process made before, so "newest first" is `order by id desc`. Node's own
 * `randomUUIDv7` does not promise that: two ids of one millisecond come in either order.
 */
export function newId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  const own = random.subarray(used, used + RANDOM_BYTES);
  used += RANDOM_BYTES;
  last = after(last, Date.now(), own);
  return v7({ random: own, ...last });
}

/** The time and the number within it of the next id: the number begins somewhere in the lower half of its 32 bits. */
function after({ msecs, seq }: typeof last, now: number, [a = 0, b = 0, c = 0, d = 0]: Uint8Array): typeof last {
  if (now > msecs) return { msecs: now, seq: ((a & 0x7f) << 24) | (b << 16) | (c << 8) | d };
  const next = (seq + 1) >>> 0;
  return { msecs: next === 0 ? msecs + 1 : msecs, seq: next };
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

/** Before every id. */
export const NIL_ID = "00000000-0000-0000-0000-000000000000";
