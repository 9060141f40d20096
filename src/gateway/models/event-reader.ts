import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { Model } from "./models.types.ts";
import { brokenProvider } from "./provider-errors.ts";

interface EventReaderOptions {
  /** An event longer than this is an attack or a fault. */
  max_characters: number;
  /** Reads an event. It may throw the stream's fault, or call `end`. */
  read(message: EventSourceMessage): void;
  onComment?(comment: string): void;
}

/**
 * Reads the server-sent events of a provider, up to the stream's end or its first fault. The fault is kept, because the
 * parts before it are returned first.
 */
export function createEventReader(model: Model, { max_characters, read, onComment }: EventReaderOptions) {
  let fault: unknown = null;
  let is_done = false;

  function attempt(work: () => void): void {
    if (is_done || fault !== null) return;
    try {
      work();
    } catch (error) {
      fault = error;
    }
  }

  const parser = createParser({
    maxBufferSize: max_characters,
    onEvent: (message) => attempt(() => read(message)),
    ...(onComment === undefined ? {} : { onComment }),
    onError({ type }) {
      if (type === "max-buffer-size-exceeded") fault ??= brokenProvider(model, "an event without end");
    },
  });

  function throwFault(): void {
    if (fault !== null) throw fault;
  }

  return {
    feed(text: string): void {
      parser.feed(text);
    },
    /** The provider has said that the stream is complete. What follows is not read. */
    end(): void {
      is_done = true;
    },
    /** The connection is closed: reads a last event without its empty line, and calls `complete` if the stream is neither complete nor faulty. */
    close(complete: () => void): void {
      if (fault === null) parser.feed("\n\n");
      attempt(complete);
    },
    throwFault,
    /** Whether the stream is complete. Throws its fault. */
    isDone(): boolean {
      throwFault();
      return is_done;
    },
  };
}
