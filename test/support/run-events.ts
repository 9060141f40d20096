import type { Client, Service } from "./service.ts";

/** One server-sent event. */
export interface SentEvent {
  /** Null: the event has none. */
  id: number | null;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field
  data: any;
}

export interface FollowedRun {
  status: number;
  /** The next event; null at the end. */
  next(): Promise<SentEvent | null>;
  /** All events up to the end, or up to the first that meets the condition. */
  until(isLast?: (event: SentEvent) => boolean): Promise<SentEvent[]>;
  hangUp(): void;
}

/** Follows the events of the run at `path`. */
export async function followRun(
  service: Pick<Service, "url">,
  user: Pick<Client, "key">,
  path: string,
  headers: Record<string, string> = {},
): Promise<FollowedRun> {
  const connection = new AbortController();
  const response = await fetch(`${service.url}${path}/events`, {
    headers: { Authorization: `Bearer ${user.key}`, ...headers },
    signal: connection.signal,
  });
  // Taken at once: fetch cancels the body of a response that is no longer referenced.
  const events = readEvents((response.body ?? new ReadableStream<Uint8Array>()).getReader());
  const next = async () => {
    const { done, value } = await events.next();
    return done === true ? null : value;
  };
  const until: FollowedRun["until"] = async (isLast = () => false) => {
    const seen: SentEvent[] = [];
    for (let event = await next(); event !== null; event = await next()) {
      seen.push(event);
      if (isLast(event)) break;
    }
    return seen;
  };
  return { status: response.status, next, until, hangUp: () => connection.abort() };
}

async function* readEvents(body: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<SentEvent, undefined> {
  const decoder = new TextDecoder();
  let text = "";
  for (let read = await body.read(); !read.done; read = await body.read()) {
    text += decoder.decode(read.value, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const block of whole) {
      const event = parsedEvent(block);
      if (event !== null) yield event;
    }
  }
  return undefined;
}

/** Null for a comment. */
export function parsedEvent(block: string): SentEvent | null {
  const fields = new Map(block.split("\n").map((line) => [line.split(":", 1)[0], line.replace(/^[^:]*: ?/, "")]));
  const data = fields.get("data");
  if (data === undefined) return null;
  const id = fields.get("id");
  return { id: id === undefined ? null : Number(id), event: fields.get("event") ?? "message", data: JSON.parse(data) };
}
