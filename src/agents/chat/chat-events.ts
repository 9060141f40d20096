import { asPurserError } from "../../kernel/errors.ts";
import { type EventFeed, errorEvent } from "../../platform/net/event-stream.ts";
import type { Turn } from "./chat.service.ts";
import { chatCalls, chatChunk, chatEnd } from "./chat-answer.ts";

/**
 * A turn's answer as server-sent events. They begin with the first text, so an earlier failure is answered with its own
 * status. A later failure becomes an error event. `include_usage`: the usage has a chunk of its own.
 */
export function createChatEvents(request_id: string, include_usage = false) {
  const left = new AbortController();
  const texts: string[] = [];
  let failure: string | null = null;
  let changed = Promise.withResolvers<void>();

  const onText = (text: string) => {
    if (left.signal.aborted) return;
    texts.push(text);
    changed.resolve();
  };
  /** The next piece of text; null when the turn has ended and all text was taken. */
  const nextText = async (over: Promise<unknown>): Promise<string | null> => {
    if (texts.length === 0) {
      changed = Promise.withResolvers();
      await Promise.race([changed.promise, over]);
    }
    return texts.length === 0 ? null : texts.splice(0).join("");
  };

  async function* eventsOf(turn: Turn, first: string | null): AsyncGenerator<string, undefined> {
    const over = turn.finished.catch(() => {});
    yield chatChunk(turn, { role: "assistant", content: "" });
    for (let text = first; text !== null; text = await nextText(over)) yield chatChunk(turn, { content: text });
    try {
      const finished = await turn.finished;
      yield chatCalls(finished) + chatEnd(finished, include_usage);
    } catch (thrown) {
      const error = asPurserError(thrown);
      failure = error.code;
      yield errorEvent(error, { request_id });
    }
    return undefined;
  }

  return {
    /** Aborted when the caller hangs up. */
    left: left.signal,
    onText,
    /** Resolves with the first text. Throws the turn's error if it fails before any text. */
    async open(turn: Turn): Promise<Required<EventFeed>> {
      turn.finished.catch(() => {}); // A failure is thrown to the reader later.
      const events = eventsOf(turn, await nextText(turn.finished));
      return { next: () => events.next(), leave: () => left.abort(), failure: () => failure };
    },
  };
}
