import type { PurserError } from "../errors.ts";

/** Server-sent events for one listener. */
export interface EventFeed {
  /** The next events, whole and ready to be written. */
  next(): Promise<IteratorResult<string, undefined>>;
  /** The listener has hung up. A `next` that is under way need not answer any more. May return a promise. */
  leave(): unknown;
}

interface Listener {
  /** Whether the listener may still call. `check` looks now, `leave` ends the watching. */
  live: { readonly refused: AbortSignal; check(): Promise<void>; leave(): void };
  request_id: string;
  /** The stream's events have names. OpenAI's have none. */
  named?: boolean;
}

const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  // Proxies that buffer would hold back what is generated.
  "X-Accel-Buffering": "no",
};

/**
 * The events as a response; they are asked for as fast as the listener reads. A listener who is refused meanwhile gets an
 * error event and the end, and the feed is left as by one who hangs up.
 */
export function eventStream(source: EventFeed, { live, request_id, named = false }: Listener): Response {
  let cut = () => {};
  let over = false;
  const end = () => {
    over = true;
    live.refused.removeEventListener("abort", cut);
    live.leave();
  };
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      cut = () => {
        end();
        controller.enqueue(Buffer.from(errorText(live.refused.reason, { request_id, named })));
        controller.close();
        void Promise.resolve(source.leave()).catch(() => {}); // a failed charge is reported where it is made
      };
      if (live.refused.aborted) cut();
      else live.refused.addEventListener("abort", cut, { once: true });
    },
    async pull(controller) {
      const { done, value } = await source.next();
      if (over) return;
      if (done !== true) return controller.enqueue(Buffer.from(value));
      // A suspension or an erasure also ends the run that is followed: the listener must learn which of both it was.
      await live.check();
      if (over) return;
      end();
      controller.close();
    },
    async cancel() {
      end();
      await source.leave();
    },
  });
  return new Response(body, { headers: HEADERS });
}

function errorText({ shape }: PurserError, { request_id, named }: { request_id: string; named: boolean }): string {
  const { type, code, message } = shape;
  const data = JSON.stringify({ error: { type, code, message, param: null, request_id } });
  return `${named ? "event: error\n" : ""}data: ${data}\n\n`;
}
