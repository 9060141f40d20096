import { errors, PurserError } from "../errors.ts";
import type { Turn } from "./chat.service.ts";
import { chatChunk, chatEnd } from "./chat-answer.ts";

const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  // Proxies that buffer would hold back what is generated.
  "X-Accel-Buffering": "no",
};

/**
 * A turn's answer as server-sent events. Headers go out with the first text, so that what fails before it is answered
 * with its own status; what fails later becomes an error event.
 */
export function createChatEvents(request_id: string) {
  const left = new AbortController();
  const texts: string[] = [];
  let news = Promise.withResolvers<void>();

  const onText = (text: string) => {
    texts.push(text);
    news.resolve();
  };
  /** The next piece of text; null once the turn is over and everything was taken. */
  const nextText = async (over: Promise<unknown>): Promise<string | null> => {
    if (texts.length === 0) {
      news = Promise.withResolvers();
      await Promise.race([news.promise, over]);
    }
    return texts.length === 0 ? null : texts.splice(0).join("");
  };

  async function* eventsOf({ run, finished }: Turn, first: string | null): AsyncGenerator<string> {
    const over = finished.catch(() => {});
    yield chatChunk(run, { role: "assistant", content: "" });
    for (let text = first; text !== null; text = await nextText(over)) yield chatChunk(run, { content: text });
    try {
      const turn = await finished;
      yield chatChunk(run, {}, turn) + chatEnd(turn);
    } catch (error) {
      yield errorEvent(error, request_id);
    }
  }

  return {
    /** Aborted when the caller hangs up. */
    left: left.signal,
    onText,
    /** Throws what the turn failed with before it had said anything. */
    async response(turn: Turn): Promise<Response> {
      turn.finished.catch(() => {}); // it may fail before anybody reads that far; whoever does is told
      const first = await nextText(turn.finished);
      const events = eventsOf(turn, first);
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          const { done, value } = await events.next();
          if (done === true) controller.close();
          else controller.enqueue(Buffer.from(value));
        },
        cancel() {
          left.abort();
        },
      });
      return new Response(body, { headers: HEADERS });
    },
  };
}

function errorEvent(thrown: unknown, request_id: string): string {
  const { type, code, message } = (thrown instanceof PurserError ? thrown : errors.internal(thrown)).shape;
  return `data: ${JSON.stringify({ error: { type, code, message, param: null, request_id } })}\n\n`;
}
