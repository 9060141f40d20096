import type { Client, Service } from "./service.ts";

/** A streamed answer that a test reads event by event. */
export interface OpenedStream {
  response: Response;
  /** The data of the next event; null at the end. */
  next(): Promise<string | null>;
  /** The data of all remaining events. */
  rest(): Promise<string[]>;
  /** Closes the connection, like a caller who is no longer interested. */
  hangUp(): void;
}

/** Requests a streamed answer, to be read event by event. */
export async function openStream(
  service: Service,
  user: Pick<Client, "key">,
  body: object,
  headers: Record<string, string> = {},
): Promise<OpenedStream> {
  const connection = new AbortController();
  const response = await fetch(`${service.url}/api/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ ...body, stream: true }),
    signal: connection.signal,
  });
  const events = eventsOf(response);
  const next = async () => {
    const { done, value } = await events.next();
    return done === true ? null : value;
  };
  const rest = async () => {
    const left: string[] = [];
    for (let data = await next(); data !== null; data = await next()) left.push(data);
    return left;
  };
  return { response, next, rest, hangUp: () => connection.abort() };
}

async function* eventsOf(response: Response): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const event of whole) yield event.replace(/^data: /, "");
  }
  if (text !== "") throw new Error(`the stream ended within an event: ${text}`);
  return undefined;
}

/** The joined text of a stream's chunks. */
export function textOf(events: string[]): string {
  const chunks = events.filter((data) => data !== "[DONE]").map((data) => JSON.parse(data));
  return chunks.map((chunk) => chunk.choices?.[0]?.delta?.content ?? "").join("");
}
