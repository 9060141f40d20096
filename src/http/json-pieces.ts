import { deserialize, serialize } from "node:v8";
import { untilTurn } from "../platform/event-loop-turn.ts";

/**
 * Transfers a large JSON value from a thread: the thread takes it apart, and the main thread joins it with pauses, so
 * that no other request waits for long.
 */

type Container = unknown[] | Record<string, unknown>;
/** The path from the root to a container, and the members of that container. `is_rest`: they continue texts. */
type Piece = readonly [
  path: readonly (string | number)[],
  entries: readonly (readonly [string | number, unknown])[],
  is_rest?: boolean,
];

/** The approximate bytes of one piece. */
const PIECE_WEIGHT = 131_072;
const VALUE_WEIGHT = 32;
const PLAIN = { configurable: true, enumerable: true, writable: true };

/** Returns `value` as serialized pieces. `{}` holds it under "root". */
export function piecesOf(value: unknown): Uint8Array<ArrayBuffer>[] {
  const weights = new Map<object, number>();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const add = (path: Piece[0], entries: Piece[1], is_rest = false) => {
    if (entries.length > 0) pieces.push(new Uint8Array(serialize([path, entries, is_rest] satisfies Piece)));
  };
  /** To allocate 31 MB takes up to 0.2 s. Parts are joined when the text is read, and it is rejected before if too long. */
  const addText = (path: Piece[0], key: string | number, text: string) => {
    for (let at = 0; at < text.length; at += PIECE_WEIGHT) {
      add(path, [[key, text.slice(at, at + PIECE_WEIGHT)]], at > 0);
    }
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
      const is_large = own_weight > PIECE_WEIGHT && child !== null && ["object", "string"].includes(typeof child);
      if (weight + own_weight > PIECE_WEIGHT || is_large) {
        add(path, batch);
        [batch, weight] = [[], 0];
      }
      if (is_large && typeof child === "string") addText(path, key, child);
      else if (is_large) {
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

/** Joins the pieces in slices. */
export async function joinPieces(pieces: readonly Uint8Array[]): Promise<unknown> {
  const all: Record<string, unknown> = {};
  for (const bytes of pieces) {
    await untilTurn();
    const [path, entries, is_rest] = deserialize(bytes) as Piece;
    const container = path.reduce<Record<string | number, unknown>>((at, key) => at[key] as never, all);
    for (const [key, part] of entries) {
      const value = is_rest === true ? `${container[key]}${part}` : part;
      // An assignment would set the prototype.
      if (key === "__proto__") Object.defineProperty(container, key, { ...PLAIN, value });
      else container[key] = value;
    }
  }
  return all.root;
}
