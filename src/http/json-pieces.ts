import { setImmediate } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";
import { monotonicMs } from "../platform/clock.ts";

/**
 * A large JSON value on its way from a thread: taken apart there, put together here with pauses, so that no other request
 * waits for long.
 */

type Container = unknown[] | Record<string, unknown>;
/** The names that lead from the root to a container, and what it holds under its own names. */
type Piece = readonly [path: readonly (string | number)[], entries: readonly (readonly [string | number, unknown])[]];

/** Roughly the bytes of one piece; a single text may be larger. */
const PIECE_WEIGHT = 131_072;
const VALUE_WEIGHT = 32;
const PAUSE_AFTER_MS = 8;
const PLAIN = { configurable: true, enumerable: true, writable: true };

/** `value` as pieces, each serialized; `{}` holds it under "root". */
export function piecesOf(value: unknown): Uint8Array<ArrayBuffer>[] {
  const weights = new Map<object, number>();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const add = (path: Piece[0], entries: Piece[1]) => {
    if (entries.length > 0) pieces.push(new Uint8Array(serialize([path, entries] satisfies Piece)));
  };

  function weightOf(part: unknown): number {
    if (typeof part === "string") return VALUE_WEIGHT + part.length;
    if (part === null || typeof part !== "object") return VALUE_WEIGHT;
    const known = weights.get(part);
    if (known !== undefined) return known;
    let weight = VALUE_WEIGHT;
    for (const [key, child] of Object.entries(part)) weight += key.length + weightOf(child);
    weights.set(part, weight);
    return weight;
  }

  function split(path: Piece[0], container: Container): void {
    let batch: (readonly [string | number, unknown])[] = [];
    let weight = 0;
    for (const [name, child] of Object.entries(container)) {
      const key = Array.isArray(container) ? Number(name) : name;
      const own_weight = key.toString().length + weightOf(child);
      const is_large = own_weight > PIECE_WEIGHT && child !== null && typeof child === "object";
      if (weight + own_weight > PIECE_WEIGHT || is_large) {
        add(path, batch);
        [batch, weight] = [[], 0];
      }
      if (is_large) {
        add(path, [[key, Array.isArray(child) ? [] : {}]]);
        split([...path, key], child as Container);
      } else {
        batch.push([key, child]);
        weight += own_weight;
      }
    }
    add(path, batch);
  }

  split([], { root: value });
  return pieces;
}

/** The value that was taken apart. Lets the event loop run after every few milliseconds of work. */
export async function joinPieces(pieces: readonly Uint8Array[]): Promise<unknown> {
  const all: Record<string, unknown> = {};
  let paused_ms = monotonicMs();
  for (const bytes of pieces) {
    if (monotonicMs() - paused_ms > PAUSE_AFTER_MS) {
      await setImmediate();
      paused_ms = monotonicMs();
    }
    const [path, entries] = deserialize(bytes) as Piece;
    const container = path.reduce<Record<string | number, unknown>>((at, key) => at[key] as never, all);
    for (const [key, value] of entries) {
      // An assignment would set the prototype.
      if (key === "__proto__") Object.defineProperty(container, key, { ...PLAIN, value });
      else container[key] = value;
    }
  }
  return all.root;
}
