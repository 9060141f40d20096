import { errors } from "../errors.ts";

/** What a JSON text may hold; checked before it is parsed. */
export interface JsonLimits {
  /** Lists and objects within one another. */
  depth: number;
  /** Names in objects, counted each time. */
  keys: number;
  /** Elements of lists and values of objects. */
  values: number;
}

const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Counts the structure of a JSON text chunk by chunk, as it arrives. One pass over the bytes, without a parse: a body
 * that passes a limit is refused before it is built as an object. Text that is not JSON is left for the parser to refuse.
 */
export function createJsonScan(limits: JsonLimits): (chunk: Buffer) => void {
  let [depth, keys, commas] = [0, 0, 0];
  let is_in_string = false;
  let is_escaped = false;

  /** The index after the string's closing quote, or the chunk's end. */
  function skipString(chunk: Buffer, from: number): number {
    let at = from;
    if (is_escaped) {
      is_escaped = false;
      at += 1;
    }
    while (at < chunk.length) {
      const quote = chunk.indexOf(QUOTE, at);
      const end = quote === -1 ? chunk.length : quote;
      let backslashes = 0;
      while (end - 1 - backslashes >= at && chunk[end - 1 - backslashes] === BACKSLASH) backslashes += 1;
      const is_odd = backslashes % 2 === 1;
      if (quote === -1) {
        is_escaped = is_odd;
        return chunk.length;
      }
      if (!is_odd) {
        is_in_string = false;
        return quote + 1;
      }
      at = quote + 1;
    }
    return chunk.length;
  }

  return (chunk) => {
    let at = 0;
    while (at < chunk.length) {
      if (is_in_string) {
        at = skipString(chunk, at);
        continue;
      }
      const byte = chunk[at];
      at += 1;
      if (byte === QUOTE) is_in_string = true;
      else if (byte === COLON) keys += 1;
      else if (byte === COMMA) commas += 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        depth += 1;
        if (depth > limits.depth) throw errors.bodyTooComplex(`more than ${limits.depth} levels of lists and objects`);
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    }
    if (keys > limits.keys) throw errors.bodyTooComplex(`more than ${limits.keys} keys`);
    if (commas > limits.values) throw errors.bodyTooComplex(`more than ${limits.values} values`);
  };
}
