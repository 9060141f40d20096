import { COUNTED_AT_ONCE, SHORT_LIST } from "../contract/request-limits.ts";

/** The limits of a JSON text, checked before it is parsed. */
export interface JsonLimits {
  /** Nesting of lists and objects. */
  depth: number;
  /** Keys of objects, each occurrence counted. */
  keys: number;
  /** Elements of lists. */
  elements: number;
  /** Bytes of one key: a long one cannot be cut, so it would hold the event loop. */
  key_bytes: number;
}

const [SPACE, QUOTE, COMMA, COLON, BACKSLASH] = [0x20, 0x22, 0x2c, 0x3a, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

interface Scan {
  depth: number;
  deepest: number;
  keys: number;
  commas: number;
  opened: number;
  /** Lists and objects with nothing in them. */
  empty: number;
  /** Nothing but white space has followed the latest opening bracket. */
  is_empty: boolean;
  is_in_string: boolean;
  is_escaped: boolean;
  /** Where the latest string begins, from the beginning of the next chunk. */
  string_at: number;
  string_bytes: number;
  longest_key: number;
}

const NOTHING: Scan = {
  depth: 0,
  deepest: 0,
  keys: 0,
  commas: 0,
  opened: 0,
  empty: 0,
  is_empty: false,
  is_in_string: false,
  is_escaped: false,
  string_at: 0,
  string_bytes: 0,
  longest_key: 0,
};
/** Limits of a request that is validated without a pause: its lists, and its lists and objects together. */
const SHORT = { values: SHORT_LIST, opened: COUNTED_AT_ONCE };

/**
 * Counts the structure of a JSON text chunk by chunk as it arrives, in one pass without parsing. So a body over a
 * limit is rejected before it becomes an object. The parser rejects invalid JSON. Each call returns the exceeded limit or
 * null.
 */
export function createJsonScan(limits: JsonLimits): (chunk: Uint8Array) => string | null {
  let scan = NOTHING;
  return (chunk) => {
    scan = scanned(chunk, scan);
    return faultOf(scan, limits);
  };
}

/** Scans a whole text. `is_short`: its validation needs no pause (contract/request-limits.ts). */
export function scanOnce(text: Uint8Array, limits: JsonLimits): { fault: string | null; is_short: boolean } {
  const scan = scanned(text, NOTHING);
  return { fault: faultOf(scan, limits), is_short: scan.commas < SHORT.values && scan.opened < SHORT.opened };
}

/** A closed list or object has one member more than commas, unless it is empty. The members of objects are the keys. */
const elementsOf = ({ commas, opened, depth, empty, keys }: Scan) => commas + opened - depth - empty - keys;

function faultOf(scan: Scan, limits: JsonLimits): string | null {
  const { deepest, keys, longest_key } = scan;
  if (deepest > limits.depth) return `more than ${limits.depth} levels of lists and objects`;
  if (keys > limits.keys) return `more than ${limits.keys} keys`;
  if (longest_key > limits.key_bytes) return `a key of more than ${limits.key_bytes} bytes`;
  return elementsOf(scan) > limits.elements ? `more than ${limits.elements} list elements` : null;
}

/** Runs for each byte. Local variables and no calls keep it at a few nanoseconds. */
function scanned(chunk: Uint8Array, before: Scan): Scan {
  let { depth, deepest, keys, commas, opened, empty, is_empty, is_in_string, is_escaped } = before;
  let { string_at, string_bytes, longest_key } = before;
  for (let at = 0; at < chunk.length; at += 1) {
    const byte = chunk[at];
    if (is_in_string) {
      if (is_escaped) is_escaped = false;
      else if (byte === BACKSLASH) is_escaped = true;
      else if (byte === QUOTE) {
        is_in_string = false;
        string_bytes = at - string_at;
      }
    } else if (byte === QUOTE) {
      is_in_string = true;
      string_at = at + 1;
      is_empty = false;
    } else if (byte === COLON) {
      keys += 1;
      if (string_bytes > longest_key) longest_key = string_bytes;
    } else if (byte === COMMA) commas += 1;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      opened += 1;
      is_empty = true;
      if (depth > deepest) deepest = depth;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth -= 1;
      if (is_empty) empty += 1;
      is_empty = false;
    } else if (byte !== undefined && byte > SPACE) is_empty = false;
  }
  string_at -= chunk.length;
  const strings = { is_in_string, is_escaped, string_at, string_bytes, longest_key };
  return { depth, deepest, keys, commas, opened, empty, is_empty, ...strings };
}
