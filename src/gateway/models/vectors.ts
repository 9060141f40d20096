/** Reads and writes the vectors of embeddings. Pure. */

export type VectorFormat = "float" | "base64";

/** Far longer than any vector: 40,000 numbers. */
const MAX_VECTOR_CHARS = 1_000_000;
/** A list of numbers, or a long text in base64. */
const VECTOR = /\[[-+0-9.eE,\s]*\]|"[A-Za-z0-9+/=]{1000,}"/g;
const UNFINISHED_VECTOR = /(?:\[[-+0-9.eE,\s]*|"[A-Za-z0-9+/=]*)$/;
const BYTES_PER_NUMBER = 4;

/** An answer in JSON whose vectors are replaced by their positions in `taken`. */
export interface ReadAnswer {
  value: unknown;
  /** The JSON text of each vector. */
  taken: string[];
}

/**
 * Takes the vectors out of a JSON text as it arrives. A large answer has six million numbers, and JSON.parse
 * would block the event loop for a second. Throws for a vector without end and for text that is no JSON.
 */
export function createVectorReader() {
  const taken: string[] = [];
  const others: string[] = [];
  let pending = "";
  return {
    push(text: string): void {
      pending += text;
      let from = 0;
      for (const match of pending.matchAll(VECTOR)) {
        others.push(pending.slice(from, match.index), String(taken.length));
        taken.push(match[0]);
        from = match.index + match[0].length;
      }
      const rest = pending.slice(from);
      const unfinished = rest.search(UNFINISHED_VECTOR);
      const end = unfinished === -1 ? rest.length : unfinished;
      others.push(rest.slice(0, end));
      pending = rest.slice(end);
      if (pending.length > MAX_VECTOR_CHARS) throw new Error("a vector without end");
    },
    end: (): ReadAnswer => ({ value: JSON.parse(others.join("") + pending), taken }),
  };
}

/**
 * A vector as JSON text in `format`, and its length. `given`: a position in `taken`, or a short vector in base64. A list
 * that is wanted as a list keeps its text. Throws for anything that is not a vector.
 */
export function vectorText(given: unknown, { taken }: ReadAnswer, format: VectorFormat): [text: string, size: number] {
  // A list that is not in `taken` has something else than numbers in it, such as one vector for each token.
  if (Array.isArray(given)) throw new Error("a vector that is not numbers");
  const text = typeof given === "number" ? (taken[given] ?? "") : JSON.stringify(given ?? null);
  const vector: unknown = JSON.parse(text);
  if (Array.isArray(vector)) return [format === "float" ? text : base64Text(Float32Array.from(vector)), vector.length];
  if (typeof vector !== "string") throw new Error("an answer without a vector");
  const bytes = new Uint8Array(Buffer.from(vector, "base64"));
  if (bytes.length % BYTES_PER_NUMBER !== 0) throw new Error("a vector of a wrong length");
  const numbers = new Float32Array(bytes.buffer);
  if (!numbers.every(Number.isFinite)) throw new Error("a vector that is not numbers");
  return [format === "base64" ? base64Text(numbers) : JSON.stringify(Array.from(numbers)), numbers.length];
}

/** OpenAI's form: the numbers' bytes, the lowest first, as on every machine that Node supports. */
function base64Text({ buffer }: Float32Array<ArrayBuffer>): string {
  return `"${Buffer.from(buffer).toString("base64")}"`;
}
