import { createHash, randomFillSync } from "node:crypto";
import { v7 } from "uuid";
import { machine_time } from "./clock.ts";
import { type Instant, instantOf } from "./instant.ts";

/** Random bytes are fetched for hundreds of ids at once. One fetch per id would take longer than all other steps. */
const random = Buffer.alloc(4_096);
const RANDOM_BYTES = 16;
let used = random.length;
let last = { msecs: 0, seq: 0 };

/** Random bytes that are given once. They are valid until the next call. */
function nextRandom(): Buffer {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += RANDOM_BYTES;
  return random.subarray(used - RANDOM_BYTES, used);
}

/**
 * A new UUIDv7, greater than all earlier ones of this process, so `order by id desc` means newest first. Node's own
 * `randomUUIDv7` does not guarantee the order of two ids of the same millisecond.
 */
export function newId(): string {
  const own = nextRandom();
  last = after(last, machine_time.nowMs(), own);
  return v7({ random: own, ...last });
}

/**
 * The time and the sequence number of the next id. In a new millisecond, the sequence starts at a random number in the
 * lower half of its 32 bits.
 */
function after({ msecs, seq }: typeof last, now: number, [a = 0, b = 0, c = 0, d = 0]: Uint8Array): typeof last {
  if (now > msecs) return { msecs: now, seq: ((a & 0x7f) << 24) | (b << 16) | (c << 8) | d };
  const next = (seq + 1) >>> 0;
  return { msecs: next === 0 ? msecs + 1 : msecs, seq: next };
}

/** When an id of `newId` was made, by real time. */
export function timeOfId(id: string): Instant {
  return instantOf(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether `text` is a UUID. Any other text cannot be one of our ids. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** A UUID that is always the same for the same name (RFC 9562 version 8, from SHA-256). */
export function stableId(name: string): string {
  const hex = createHash("sha256").update(`purser:${name}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** No row has this id. It sorts before every id. */
export const NIL_ID = "00000000-0000-0000-0000-000000000000";
