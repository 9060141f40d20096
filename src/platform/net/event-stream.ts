import type { ServerResponse } from "node:http";
import { errors, type PurserError } from "../../kernel/errors.ts";

/** Server-sent events for one listener. */
export interface EventFeed {
  /** The next events, complete and ready to write. */
  next(): Promise<IteratorResult<string, undefined>>;
  /** The listener has disconnected. A pending `next` need not answer any more. May return a promise. */
  leave(): unknown;
  /** The code of the error event that ends the stream; null without one. */
  failure?(): string | null;
}

export interface Listener {
  /** Whether the listener still has access. `check` verifies it now; `leave` stops watching it. */
  live: { readonly refused: AbortSignal; check(): Promise<void>; leave(): void };
  request_id: string;
  /** Whether the stream's events have names. OpenAI's events have none. */
  named?: boolean;
  /** The event for a listener that loses access, in the stream's own shape. */
  errorText?: (error: PurserError) => string;
}

export const EVENT_STREAM_HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  // Buffering proxies would delay the generated text.
  "X-Accel-Buffering": "no",
};

/**
 * Writes the events to a response whose headers are sent, as fast as the listener reads.
 *
 * A listener that loses access meanwhile gets an error event and the end of the stream. Then the feed is left as after
 * a disconnect.
 */
export async function writeEvents(outgoing: ServerResponse, source: EventFeed, listener: Listener): Promise<void> {
  const { live } = listener;
  let over = false;
  const end = () => {
    over = true;
    live.refused.removeEventListener("abort", cut);
    outgoing.off("close", leave);
    live.leave();
  };
  const leave = () => {
    end();
    void Promise.resolve(source.leave()).catch(() => {}); // a failed charge is reported where it is made
  };
  const cut = () => {
    const lost = live.refused.reason as PurserError;
    outgoing.end(errorEvent(lost, listener));
    leave();
  };
  outgoing.once("close", leave);
  if (outgoing.destroyed) leave();
  else if (live.refused.aborted) cut();
  else live.refused.addEventListener("abort", cut, { once: true });
  try {
    while (!over) {
      const { done, value } = await source.next();
      if (over) return;
      if (done === true || hasFailed(source)) await live.check();
      if (over) return;
      if (done === true) {
        end();
        outgoing.end();
      } else if (!outgoing.write(value)) await drained(outgoing);
    }
  } catch {
    if (over) return;
    // The listener must not take a cut stream for a whole one.
    if (listener.named === true) outgoing.destroy();
    else outgoing.end(errorEvent(errors.internal(), listener));
    leave();
  }
}

/** A lost access also ends the followed run. The listener must learn the cause: its stream is checked before that error. */
function hasFailed({ failure }: EventFeed): boolean {
  return failure !== undefined && failure() !== null;
}

/** Resolves when the reader has read what was written, or has left. */
export function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done);
      outgoing.off("close", done);
      resolve();
    };
    outgoing.on("drain", done);
    outgoing.on("close", done);
    if (outgoing.destroyed) done();
  });
}

/** The event with which an error ends a stream, in the stream's own shape. */
export function errorEvent(
  error: PurserError,
  { request_id, named = false, errorText }: Omit<Listener, "live">,
): string {
  if (errorText !== undefined) return errorText(error);
  const { type, code, message } = error.shape;
  const data = JSON.stringify({ error: { type, code, message, param: null, request_id } });
  return `${named ? "event: error\n" : ""}data: ${data}\n\n`;
}
