import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request to the upstream, with its parsed body. */
export interface UpstreamRequest {
  path: string;
  headers: IncomingMessage["headers"];
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field
  body: any;
}

/** The upstream's reaction to a request: any use of the socket. */
export type Reply = (response: ServerResponse, request: UpstreamRequest) => void | Promise<void>;

/** A model provider on loopback with scripted answers. */
export interface Upstream {
  /** Base address for an OpenAI-compatible provider. */
  url: string;
  requests: UpstreamRequest[];
  /** Exchanges in which the caller closed the connection before the answer was complete. */
  hangUps: number;
  /** Sets the replies to the next requests. The last one stays. */
  answer(...replies: Reply[]): void;
  /** Resolves once `condition` holds. It is checked after every event of the upstream. */
  until(condition: () => boolean): Promise<void>;
  close(): Promise<void>;
}

/** Starts an upstream that answers `completion()` unless a test sets a reply. */
export async function startUpstream(): Promise<Upstream> {
  let replies: Reply[] = [completion()];
  let waiting: { condition: () => boolean; resolve: () => void }[] = [];
  const happened = () => {
    waiting = waiting.filter(({ condition, resolve }) => {
      if (condition()) resolve();
      return !condition();
    });
  };
  const server = createServer(async (message, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of message) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const request = { path: message.url ?? "", headers: message.headers, body: text === "" ? null : JSON.parse(text) };
    upstream.requests.push(request);
    response.on("close", () => {
      if (!response.writableFinished) upstream.hangUps += 1;
      happened();
    });
    happened();
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    await reply?.(response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const upstream: Upstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: [],
    hangUps: 0,
    answer(...next) {
      replies = next;
    },
    until: (condition) =>
      condition() ? Promise.resolve() : new Promise((resolve) => waiting.push({ condition, resolve })),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return upstream;
}

export interface UpstreamUsage {
  prompt_tokens: number;
  completion_tokens: number;
  [detail: string]: unknown;
}

export const USAGE: UpstreamUsage = { prompt_tokens: 10, completion_tokens: 4 };

/** Answers `status` with a JSON body. */
export function json(body: unknown, status = 200): Reply {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
}

/** A chat.completion with this text, streamed if the request asks for it. `usage: null` omits the usage. */
export function completion(text = "hello from upstream", usage: UpstreamUsage | null = USAGE): Reply {
  return (response, request) => {
    if (request.body?.stream === true) return stream(text.split(/(?= )/), usage)(response, request);
    const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
    const identity = {
      id: "chatcmpl-upstream",
      object: "chat.completion",
      created: 1_700_000_000,
      model: "fake-large",
    };
    return json({ ...identity, choices, ...(usage === null ? {} : { usage }) })(response, request);
  };
}

/** An answer in which the model calls web_fetch for a page, or another tool with that argument. */
export function fetching(url: string, name = "web_fetch"): Reply {
  return calling(name, { url });
}

/** An answer in which the model calls a tool, streamed if the request asks for it. */
export function calling(name: string, given: unknown, id = "call_1"): Reply {
  const call = { id, type: "function", function: { name, arguments: JSON.stringify(given) } };
  const usage = { prompt_tokens: 20, completion_tokens: 5 };
  const finish_reason = "tool_calls";
  const message = { role: "assistant", content: null, tool_calls: [call] };
  return (response, request) => {
    if (request.body?.stream !== true) {
      const choices = [{ index: 0, message, finish_reason }];
      return json({ id: "x", object: "chat.completion", created: 1, model: "m", choices, usage })(response, request);
    }
    const delta = { ...message, tool_calls: [{ index: 0, ...call }] };
    return events(
      event({ choices: [{ index: 0, delta, finish_reason: null }] }),
      event({ choices: [{ index: 0, delta: {}, finish_reason }] }),
      event({ choices: [], usage }),
      "data: [DONE]\n\n",
    )(response, request);
  };
}

/** One chunk of a stream as the event that carries it. */
export function event(fields: Record<string, unknown>): string {
  const identity = {
    id: "chatcmpl-upstream",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "fake-large",
  };
  return `data: ${JSON.stringify({ ...identity, ...fields })}\n\n`;
}

/** The chunk that generates `content`. */
export function delta(content: string): string {
  return event({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
}

/** A whole stream of these pieces, one write each. */
export function stream(pieces: string[], usage: UpstreamUsage | null = USAGE): Reply {
  return events(
    event({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] }),
    ...pieces.map(delta),
    event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
    ...(usage === null ? [] : [event({ choices: [], usage })]),
    "data: [DONE]\n\n",
  );
}

/** A whole stream of this text, with this finish reason. */
export function ended(text: string, finish_reason: string): Reply {
  return events(
    delta(text),
    event({ choices: [{ index: 0, delta: {}, finish_reason }] }),
    event({ choices: [], usage: USAGE }),
    "data: [DONE]\n\n",
  );
}

/** Writes these texts as an event stream and ends it. */
export function events(...texts: string[]): Reply {
  return async (response) => {
    await write(response, texts);
    response.end();
  };
}

/** Writes these texts and leaves the stream open, like a model that is still thinking. */
export function hanging(...texts: string[]): Reply {
  return (response) => write(response, texts);
}

/** Writes these texts and then cuts the connection. */
export function cut(...texts: string[]): Reply {
  return async (response) => {
    await write(response, texts);
    response.destroy();
  };
}

async function write(response: ServerResponse, texts: string[]): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
  for (const text of texts) {
    await new Promise((resolve) => response.write(text, resolve));
    // Usually the other end reads each piece separately.
    await new Promise(setImmediate);
  }
}

/** Anthropic's answer to a plain request. */
export function anthropicMessage(content: unknown[], usage: Record<string, unknown>, stop_reason = "end_turn"): Reply {
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-test", content, stop_reason };
  return json({ ...message, stop_sequence: null, usage });
}

/** Anthropic's stream of one text. */
export function anthropicStream(pieces: string[], usage: { input_tokens: number; output_tokens: number }): Reply {
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-test", content: [] };
  const start = { ...message, stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } };
  const named = (type: string, fields: Record<string, unknown>) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
  return events(
    named("message_start", { message: start }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    ...pieces.map((text) => named("content_block_delta", { index: 0, delta: { type: "text_delta", text } })),
    named("content_block_stop", { index: 0 }),
    named("message_delta", {
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: usage.output_tokens },
    }),
    named("message_stop", {}),
  );
}

/** Google's answer: `parts` of one candidate, plain or as a stream of one event. */
export function googleAnswer(parts: unknown[], usage: Record<string, number>, finishReason = "STOP"): Reply {
  const body = {
    candidates: [{ content: { role: "model", parts }, finishReason, index: 0 }],
    usageMetadata: usage,
  };
  return (response, request) =>
    request.path.includes("streamGenerateContent")
      ? events(`data: ${JSON.stringify(body)}\n\n`)(response, request)
      : json(body)(response, request);
}
