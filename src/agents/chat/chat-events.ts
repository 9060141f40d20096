import type { AnswerPart } from "../../gateway/models/answer-events.ts";
import { asPurserError } from "../../kernel/errors.ts";
import type { Turn } from "./chat.service.ts";
import { chatEnd, chatStart, inWords } from "./chat-answer.ts";

/**
 * A turn's answer as events. They begin with the first text, so an earlier failure is answered with its own status. A
 * later failure becomes an error event. `waits_in_words`: a turn that waits for a decision says so as text.
 */
export function createChatEvents({ waits_in_words = false } = {}) {
  const left = new AbortController();
  const texts: string[] = [];
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

  async function* getParts(turn: Turn, first: string | null): AsyncGenerator<AnswerPart, undefined> {
    const over = turn.finished.catch(() => {});
    yield { events: [chatStart(turn)] };
    for (let text = first; text !== null; text = await nextText(over)) {
      yield { events: [{ type: "text", choice: 0, text }] };
    }
    try {
      const finished = await turn.finished;
      if (finished.waiting === null || !waits_in_words) return yield* chatEnd(finished);
      const said = inWords(finished, first !== null);
      yield { events: [{ type: "text", choice: 0, text: said.run.output ?? "" }] };
      yield* chatEnd(said);
    } catch (thrown) {
      yield { events: [{ type: "error", error: asPurserError(thrown) }] };
    }
    return undefined;
  }

  return {
    /** Aborted when the caller hangs up. */
    left: left.signal,
    onText,
    /** Resolves with the first text. Throws the turn's error if it fails before any text. */
    async open(turn: Turn): Promise<AsyncGenerator<AnswerPart, undefined>> {
      turn.finished.catch(() => {}); // A failure is thrown to the reader later.
      return getParts(turn, await nextText(turn.finished));
    },
    leave: () => left.abort(),
  };
}
