import { deserialize, serialize } from "node:v8";
import { untilTurn } from "../../platform/lib/event-loop-turn.ts";

/**
 * Transfers a large JSON value from a thread: the thread takes it apart, and the main thread joins it with pauses, so
 * that no other request waits for long.
 */

type Container = unknown[] | Record<string, unknown>;
/**
 * Members of a container, which is named by its number: a path of long keys in each piece would take a gigabyte.
 * `opened`: the member is a container, and the next number is its own. `rest`: the members continue texts.
 */
type Piece = readonly [
  into: number,
  entries: readonly (readonly [string | number, unknown])[],
  kind: "members" | "opened" | "rest",
];

/** The approximate bytes of one piece. */
const PIECE_WEIGHT = 131_072;
const VALUE_WEIGHT = 32;
const PLAIN = { configurable: true, enumerable: true, writable: true };

/** Returns `value` as serialized pieces. Container 0 holds it under "root". */
export function piecesOf(value: unknown): Uint8Array<ArrayBuffer>[] {
  const weights = new Map<object, number>();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let opened = 0;
  const add = (into: number, entries: Piece[1], kind: Piece[2] = "members") => {
    if (entries.length > 0) pieces.push(new Uint8Array(serialize([into, entries, kind] satisfies Piece)));
  };
  /** To allocate 31 MB takes up to 0.2 s. Parts are joined when the text is read, and it is rejected before if too long. */
  const addText = (into: number, key: string | number, text: string) => {
    for (let at = 0; at < text.length; at += PIECE_WEIGHT) {
      add(into, [[key, text.slice(at, at + PIECE_WEIGHT)]], at > 0 ? "rest" : "members");
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

  function split(into: number, container: Container): void {
    let batch: (readonly [string | number, unknown])[] = [];
    let weight = 0;
    for (const [name, child] of Object.entries(container)) {
      const key = Array.isArray(container) ? Number(name) : name;
      const own_weight = key.toString().length + weightOf(child);
      const is_large = own_weight > PIECE_WEIGHT && child !== null && ["object", "string"].includes(typeof child);
      if (weight + own_weight > PIECE_WEIGHT || is_large) {
        add(into, batch);
        [batch, weight] = [[], 0];
      }
      if (is_large && typeof child === "string") addText(into, key, child);
      else if (is_large) {
        add(into, [[key, Array.isArray(child) ? [] : {}]], "opened");
        opened += 1;
        split(opened, child as Container);
      } else {
        batch.push([key, child]);
        weight += own_weight;
      }
    }
    add(into, batch);
  }

  split(0, { root: value });
  return pieces;
}

/** Joins the pieces in slices. */
export async function joinPieces(pieces: readonly Uint8Array[]): Promise<unknown> {
  const all: Record<string, unknown> = {};
  const containers: Record<string | number, unknown>[] = [all];
  for (const bytes of pieces) {
    await untilTurn();
    const [into, entries, kind] = deserialize(bytes) as Piece;
    const container = containers[into] ?? all;
    for (const [key, part] of entries) {
      const value = kind === "rest" ? `${container[key]}${part}` : part;
      // An assignment would set the prototype.
      if (key === "__proto__") Object.defineProperty(container, key, { ...PLAIN, value });
      else container[key] = value;
      if (kind === "opened") containers.push(value as never);
    }
  }
  return all.root;
}
