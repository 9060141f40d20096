/** Server-sent events for one listener. */
export interface EventFeed {
  /** The next events, whole and ready to be written. */
  next(): Promise<IteratorResult<string, undefined>>;
  /** The listener has hung up. A `next` that is under way need not answer any more. */
  leave(): void;
}

const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  // Proxies that buffer would hold back what is generated.
  "X-Accel-Buffering": "no",
};

/** The events as a response; they are asked for as fast as the listener reads. */
export function eventStream(source: EventFeed): Response {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await source.next();
      if (done === true) controller.close();
      else controller.enqueue(Buffer.from(value));
    },
    cancel() {
      source.leave();
    },
  });
  return new Response(body, { headers: HEADERS });
}
