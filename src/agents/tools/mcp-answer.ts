import { setImmediate as nextTurn } from "node:timers/promises";

/** Checks an MCP server's answer before any of it is parsed, in one pass over its bytes. */

/** JSON.parse and the readers of its value recurse into each level. */
const MAX_DEPTH = 128;
/** Values and keys of all messages, and lines of a stream. JSON.parse takes about 20 ms for this number. */
const MAX_VALUES = 50_000;
/** Messages that a server may send in the streams of one operation. Progress for ten minutes needs 600. */
export const MAX_MESSAGES = 1_000;
/** Bytes checked in one turn: 1 ms. */
const PART_BYTES = 262_144;

const [QUOTE, BACKSLASH, LINE_FEED, CARRIAGE_RETURN] = [0x22, 0x5c, 0x0a, 0x0d];
/** Effect of a byte outside of strings: opens or closes a level, begins another value, ends a line, begins a string. */
const [OPENS, CLOSES, PARTS, BREAKS, QUOTES] = [1, 2, 3, 4, 5];
const EFFECT = new Uint8Array(256);
for (const byte of Buffer.from("[{")) EFFECT[byte] = OPENS;
for (const byte of Buffer.from("]}")) EFFECT[byte] = CLOSES;
for (const byte of Buffer.from(",:")) EFFECT[byte] = PARTS;
for (const byte of [LINE_FEED, CARRIAGE_RETURN]) EFFECT[byte] = BREAKS;
EFFECT[QUOTE] = QUOTES;

/** The state of the check. */
interface CheckState {
  readonly is_stream: boolean;
  at: number;
  is_in_string: boolean;
  depth: number;
  values: number;
  messages: number;
  /** Index of the line's first byte. */
  line_from: number;
}

/** Why an answer may not be parsed, as a clause about the server; null if it may. Yields to the event loop. */
export async function answerFault(body: Uint8Array, content_type: string): Promise<string | null> {
  const is_stream = content_type.toLowerCase().includes("event-stream");
  const state = { is_stream, at: 0, is_in_string: false, depth: 0, values: 0, messages: 0, line_from: 0 };
  for (let to = PART_BYTES; ; to += PART_BYTES) {
    const fault = faultIn(body, state, Math.min(to, body.length));
    if (fault !== null || to >= body.length) return fault;
    await nextTurn();
  }
}

/** Checks the bytes up to `to`. */
function faultIn(body: Uint8Array, state: CheckState, to: number): string | null {
  while (state.at < to) {
    if (state.is_in_string) {
      leaveString(body, state, to);
      continue;
    }
    const effect = EFFECT[body[state.at] as number];
    if (effect === QUOTES) state.is_in_string = true;
    else if (effect === CLOSES) state.depth -= 1;
    else if (effect === PARTS) state.values += 1;
    else if (effect === OPENS) {
      state.depth += 1;
      state.values += 1;
      if (state.depth > MAX_DEPTH) return `its JSON nests deeper than ${MAX_DEPTH} levels`;
    } else if (effect === BREAKS && state.is_stream) endLine(body, state);
    state.at += 1;
    if (state.values > MAX_VALUES) return `its answer holds more than ${MAX_VALUES} values`;
    if (state.messages > MAX_MESSAGES) return `it sends more than ${MAX_MESSAGES} messages in one stream`;
  }
  return null;
}

/** Skips to the end of a string, or to `to`. In a stream, a line break ends it: JSON strings contain no line breaks. */
function leaveString(body: Uint8Array, state: CheckState, to: number): void {
  const { is_stream } = state;
  let { at } = state;
  for (; at < to; at += 1) {
    const byte = body[at];
    if (byte === BACKSLASH) at += 1;
    else if (byte === QUOTE || (is_stream && (byte === LINE_FEED || byte === CARRIAGE_RETURN))) {
      state.is_in_string = false;
      // The caller reads the line break again, as one outside of strings.
      state.at = byte === QUOTE ? at + 1 : at;
      return;
    }
  }
  state.at = at;
}

/** An empty line ends a message of a stream. */
function endLine(body: Uint8Array, state: CheckState): void {
  const { at, line_from } = state;
  const is_pair = body[at] === LINE_FEED && body[at - 1] === CARRIAGE_RETURN;
  if (at === line_from && !is_pair) {
    state.messages += 1;
    state.depth = 0;
  }
  state.values += 1;
  state.line_from = at + 1;
}
