import type { Outbound, OutboundStream } from "../platform/outbound.ts";
import { type OutboundCode, OutboundError } from "../platform/outbound-errors.ts";
import type { OpenedCredential } from "./credentials.ts";
import { MAX_MESSAGES, oddityOf } from "./mcp-answer.ts";
import type { RunRef } from "./tools.types.ts";

/** The requests of one session with an MCP server. Limits hold per operation: one listing, one call. */

/** A server's own request, such as a ping, costs one message too. An operation itself takes about a dozen. */
const MAX_SENT = 50;
const MAX_REDIRECTS = 3;
/** No run lasts longer, so no request does (contract 6: max_run_seconds). */
const MAX_MS = 3_600_000;
/** After an operation, its answers to pings and its cancellation may still be on their way for this long. */
const LINGER_MS = 1_000;
/** The beginning of a notification. The arguments of a call may contain the same text further on. */
const NOTICE = /^\{("jsonrpc":"2\.0",)?"method":"notifications\//;
/** Answers without a body (Fetch standard, "null body status"), and 202, with which servers accept a notification. */
const BODILESS = new Set([202, 204, 205, 304]);

/** One operation: a listing or a call. */
export interface Asked {
  readonly run: RunRef;
  readonly signal: AbortSignal;
  /** How long the server may take to answer the handshake. */
  readonly timeout_ms: number;
  /** Limit for all answers of the operation together. */
  readonly max_bytes: number;
}

export interface Allotment {
  readonly credentials: readonly OpenedCredential[];
  /** Limit for all answers of the operation together. */
  readonly max_bytes: number;
}

/** One listing or call. */
export interface Operation {
  /** Why a request failed; null while none did. */
  failure(): unknown;
  /** Rejects when the server exceeds a limit or sends a secret back. Then the operation must not continue. */
  readonly broken: Promise<never>;
  /** The status of the last answer; null if it was a success. */
  status(): number | null;
  /** Whether the server answered a request with 401. It has not carried out that request. */
  isUnauthorized(): boolean;
  /** Whether the last answer was neither JSON nor a stream. */
  isPage(): boolean;
  /** Closes the operation's streams. */
  end(): void;
}

/** Creates the `fetch` of one session. Outbound sends every message, only to the server's own origin. */
export function createTraffic(outbound: Outbound, url: URL) {
  let current: Turn | null = null;
  let notifying = 0;

  async function fetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
    const turn = current;
    if (turn === null) throw new OutboundError("aborted", "the session is idle");
    const is_notice = typeof init.body === "string" && NOTICE.test(init.body);
    if (is_notice) notifying += 1;
    try {
      turn.sent += 1;
      if (turn.sent > MAX_SENT) throw asksTooMuch();
      const answer = await send(outbound, { url, input, init, turn });
      if (answer === null) return new Response(null, { status: 405 });
      turn.status = answer.status < 400 ? null : answer.status;
      turn.is_unauthorized ||= answer.status === 401 && !is_notice && isRequest(init);
      turn.is_page = answer.body.length > 0 && !answer.content_type.toLowerCase().includes("json");
      return asResponse(answer, turn);
    } catch (error) {
      throw turn.failed(error);
    } finally {
      if (is_notice) notifying -= 1;
    }
  }

  return {
    fetch,
    begin(allotment: Allotment): Operation {
      const turn = newTurn(allotment);
      current = turn;
      return {
        failure: () => turn.failure,
        broken: turn.broken.promise,
        status: () => turn.status,
        isUnauthorized: () => turn.is_unauthorized,
        isPage: () => turn.is_page,
        end() {
          for (const close of turn.streams) close();
          setTimeout(() => turn.abort.abort(), LINGER_MS).unref();
        },
      };
    },
    /** Waits until the notifications are sent, such as a cancellation, for a second at most. */
    async settled(): Promise<void> {
      for (let left_ms = LINGER_MS; left_ms > 0; left_ms -= 20) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        if (notifying === 0) return;
      }
    },
  };
}

/** The state of an operation. */
interface Turn {
  readonly credentials: readonly OpenedCredential[];
  readonly abort: AbortController;
  readonly broken: PromiseWithResolvers<never>;
  readonly streams: Set<() => void>;
  left_bytes: number;
  sent: number;
  received: number;
  status: number | null;
  is_unauthorized: boolean;
  is_page: boolean;
  failure: unknown;
  /** Notes a failure, and returns it in the server's terms. */
  failed(error: unknown): unknown;
}

function newTurn({ credentials, max_bytes }: Allotment): Turn {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => {});
  const turn: Turn = {
    credentials,
    broken,
    ...{ abort: new AbortController(), streams: new Set(), left_bytes: max_bytes },
    ...{ sent: 0, received: 0, status: null, is_unauthorized: false, is_page: false, failure: null },
    failed(thrown) {
      const is_large = thrown instanceof OutboundError && thrown.code === "too_large";
      const error = is_large
        ? new OutboundError("too_large", `its answers are larger than ${max_bytes} bytes`)
        : thrown;
      // A later failure must not hide a reflected secret.
      if (!isReflection(turn.failure)) turn.failure = error;
      if (isFinal(error)) broken.reject(error);
      return error;
    },
  };
  return turn;
}

/** A message of ours that wants an answer. Our answers to the server's own requests name no method. */
function isRequest({ method, body }: RequestInit): boolean {
  return method === "POST" && typeof body === "string" && body.includes('"method":');
}

const LOST = new Set<OutboundCode>(["connect_failed", "dns_failed", "aborted", "timeout", "bad_response"]);
/** Whether the client must not try again: every failure but a lost connection, after which it resumes a stream. */
function isFinal(error: unknown): boolean {
  return error instanceof OutboundError && !LOST.has(error.code);
}

/** Whether a request failed because the server sent a secret back. */
export function isReflection(error: unknown): error is OutboundError {
  return error instanceof OutboundError && error.code === "secret_reflected";
}

function asksTooMuch(): OutboundError {
  return new OutboundError(
    "limit_exceeded",
    `it sends so many requests that one operation needs more than ${MAX_SENT} messages`,
  );
}

/**
 * The server's answer to one message, checked but not parsed. null for a GET that opens a stream of the server's own
 * requests: no code answers them. A GET that resumes a stream is sent.
 */
async function send(
  outbound: Outbound,
  { url, input, init, turn }: { url: URL; input: string | URL; init: RequestInit; turn: Turn },
): Promise<OutboundStream | null> {
  const method = init.method ?? "GET";
  const headers = Object.fromEntries(new Headers(init.headers));
  if (method === "GET" && headers["last-event-id"] === undefined) return null;
  const answer = await outbound.stream({
    url: String(input),
    method,
    headers,
    body: typeof init.body === "string" ? init.body : undefined,
    permits: (to) => to.origin === url.origin,
    credentials: turn.credentials,
    signal: init.signal == null ? turn.abort.signal : AbortSignal.any([turn.abort.signal, init.signal]),
    max_bytes: Math.max(0, turn.left_bytes),
    max_redirects: MAX_REDIRECTS,
    timeout_ms: MAX_MS,
  });
  turn.left_bytes -= answer.body.length;
  await check(answer.body, answer.content_type);
  return answer;
}

async function check(bytes: Buffer, content_type: string): Promise<void> {
  const oddity = await oddityOf(bytes, content_type);
  if (oddity !== null) throw new OutboundError("limit_exceeded", oddity);
}

function asResponse({ status, headers, content_type, body, events }: OutboundStream, turn: Turn): Response {
  const shown = new Headers({ "content-type": content_type });
  const session = headers["mcp-session-id"];
  if (session !== undefined) shown.set("mcp-session-id", session);
  if (events !== null) return new Response(streamOf(events, turn), { status, headers: shown });
  return new Response(BODILESS.has(status) ? null : new Uint8Array(body), { status, headers: shown });
}

/** Passes the events on as they come, within the operation's limits. */
function streamOf(events: AsyncGenerator<Buffer, void>, turn: Turn): ReadableStream<Uint8Array> {
  let is_over = false;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const close = () => {
          if (is_over) return;
          is_over = true;
          turn.streams.delete(close);
          controller.close();
        };
        turn.streams.add(close);
      },
      async pull(controller) {
        try {
          const { value } = await events.next();
          if (is_over) return;
          if (value === undefined) {
            is_over = true;
            return controller.close();
          }
          await noteEvent(value, turn);
          if (!is_over) controller.enqueue(value);
        } catch (thrown) {
          if (is_over) return;
          is_over = true;
          controller.error(turn.failed(thrown));
        }
      },
      cancel() {
        is_over = true;
      },
    },
    { highWaterMark: 0 },
  );
}

async function noteEvent(event: Buffer, turn: Turn): Promise<void> {
  turn.left_bytes -= event.length;
  turn.received += 1;
  if (turn.left_bytes < 0) throw new OutboundError("too_large", "");
  if (turn.received > MAX_MESSAGES) {
    throw new OutboundError("limit_exceeded", `it sends more than ${MAX_MESSAGES} messages in one operation`);
  }
  await check(event, "text/event-stream");
}
