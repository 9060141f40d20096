/** Checks an MCP server's answer before any of it is parsed. Pure; one pass over the bytes. */

/** JSON.parse, and what reads its value, take a deep one apart level by level. */
const MAX_DEPTH = 128;
/** Values and keys of all messages, and lines of a stream: so many are parsed within some 20 ms. */
const MAX_VALUES = 50_000;
const MAX_STREAM_MESSAGES = 200;

const [QUOTE, BACKSLASH, LINE_FEED, CARRIAGE_RETURN] = [0x22, 0x5c, 0x0a, 0x0d];
/** What a byte outside of strings does: opens or closes a level, begins another value, ends a line. */
const [OPENS, CLOSES, PARTS, BREAKS] = [1, 2, 3, 4];
const EFFECT = new Uint8Array(256);
for (const byte of Buffer.from("[{")) EFFECT[byte] = OPENS;
for (const byte of Buffer.from("]}")) EFFECT[byte] = CLOSES;
for (const byte of Buffer.from(",:")) EFFECT[byte] = PARTS;
for (const byte of [LINE_FEED, CARRIAGE_RETURN]) EFFECT[byte] = BREAKS;

/** Why an answer is not parsed: a clause about the server. null when it may be. */
export function oddityOf(body: Uint8Array, content_type: string): string | null {
  const is_stream = content_type.toLowerCase().includes("event-stream");
  let [depth, values, messages, line_from] = [0, 0, 0, 0];
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at] as number;
    if (byte === QUOTE) {
      at = stringEnd(body, at + 1, is_stream);
      continue;
    }
    const effect = EFFECT[byte];
    if (effect === 0) continue;
    if (effect === CLOSES) depth -= 1;
    else if (effect === OPENS) {
      depth += 1;
      values += 1;
      if (depth > MAX_DEPTH) return `its JSON nests deeper than ${MAX_DEPTH} levels`;
    } else if (effect === PARTS) values += 1;
    else if (is_stream) {
      if (at === line_from && !isPairEnd(body, at)) {
        messages += 1;
        depth = 0;
      }
      values += 1;
      line_from = at + 1;
      if (messages > MAX_STREAM_MESSAGES) return `it sends more than ${MAX_STREAM_MESSAGES} messages in one stream`;
    }
    if (values > MAX_VALUES) return `its answer holds more than ${MAX_VALUES} values`;
  }
  return null;
}

/** Where the string ends that begins at `from`. No string goes on in a stream's next line. */
function stringEnd(body: Uint8Array, from: number, is_stream: boolean): number {
  let at = from;
  for (; at < body.length; at += 1) {
    const byte = body[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at += 1;
    else if (is_stream && (byte === LINE_FEED || byte === CARRIAGE_RETURN)) return at - 1;
  }
  return at;
}

/** Whether the line feed at `at` belongs to the carriage return before it. */
function isPairEnd(body: Uint8Array, at: number): boolean {
  return body[at] === LINE_FEED && body[at - 1] === CARRIAGE_RETURN;
}
