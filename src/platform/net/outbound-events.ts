import { type BodyLimit, codingsIn, MAX_PIECES } from "./outbound-body.ts";
import { OutboundError } from "./outbound-errors.ts";

const [LINE_FEED, CARRIAGE_RETURN] = [0x0a, 0x0d];
/** A reader of events waits after a carriage return, because a line feed may belong to it. */
const END_OF_RETURN = Buffer.from("\n");

/** Whether an answer is a stream of events that is not compressed. */
export function isUncompressedEventStream(headers: Readonly<Record<string, string>>, content_type: string): boolean {
  return codingsIn(headers["content-encoding"] ?? "").length === 0 && content_type.startsWith("text/event-stream");
}

/**
 * The events of a body. Leaves its connection at the end, also when the reader stops.
 * @param connection.broken the error of a body that breaks off.
 */
export async function* readEvents(
  body: AsyncIterable<Buffer>,
  limit: BodyLimit,
  { leave, broken }: { leave: () => void; broken: () => OutboundError },
): AsyncGenerator<Buffer, void> {
  try {
    yield* splitEvents(body, limit);
  } catch (error) {
    throw error instanceof OutboundError ? error : broken();
  } finally {
    leave();
  }
}

/**
 * Splits a body into its server-sent events, each with the empty line that ends it, as soon as they are complete. Lines
 * end with CR, LF or both. Text after the last empty line is no event (HTML standard, "event stream interpretation").
 * Errors: OutboundError `too_large` and `bad_response`; errors of the body.
 */
export async function* splitEvents(body: AsyncIterable<Buffer>, limit: BodyLimit): AsyncGenerator<Buffer, void> {
  const { max_bytes, host, status } = limit;
  let [kept, kept_bytes, size, pieces]: [Buffer[], number, number, number] = [[], 0, 0, 0];
  let [is_line_empty, last] = [true, 0];
  for await (const piece of body) {
    pieces += 1;
    size += piece.length;
    if (size > max_bytes) {
      throw new OutboundError("too_large", `the answer is larger than ${max_bytes} bytes`, { host, status });
    }
    if (pieces > MAX_PIECES) {
      throw new OutboundError("bad_response", `the answer comes in more than ${MAX_PIECES} pieces`, { host, status });
    }
    let from = 0;
    for (let at = 0; at < piece.length; at += 1) {
      const byte = piece[at] as number;
      const is_pair = byte === LINE_FEED && last === CARRIAGE_RETURN;
      last = byte;
      if (is_pair) {
        if (kept_bytes + at === from) from = at + 1;
        continue;
      }
      const is_break = byte === LINE_FEED || byte === CARRIAGE_RETURN;
      if (is_break && is_line_empty && kept_bytes + at > from) {
        const end = byte === CARRIAGE_RETURN ? [END_OF_RETURN] : [];
        yield Buffer.concat([...kept, piece.subarray(from, at + 1), ...end]);
        [kept, kept_bytes, from] = [[], 0, at + 1];
      }
      is_line_empty = is_break;
    }
    if (from === piece.length) continue;
    kept.push(piece.subarray(from));
    kept_bytes += piece.length - from;
  }
}
