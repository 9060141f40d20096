import { isTooDeep } from "../../platform/lib/json.ts";
import { withoutNullFields } from "../../platform/lib/null-fields.ts";
import type { Outbound, OutboundStream } from "../../platform/net/outbound.ts";
import { type OutboundCode, OutboundError } from "../../platform/net/outbound-errors.ts";
import type { OpenedCredential } from "./credentials.ts";
import type { RunRef } from "./tools.types.ts";

/** The requests of one session with an MCP server. Limits hold per operation: one listing, one call. */

/** A server's own request, such as a ping, costs one message too. An operation itself takes about a dozen. */
const MAX_SENT = 50;
/** Messages that a server may send in the streams of one operation. Progress for ten minutes needs 600. */
const MAX_MESSAGES = 1_000;
const MAX_REDIRECTS = 3;
/** No run lasts longer, so no request does (contract 6: max_run_seconds). */
const MAX_MS = 3_600_000;
/** After an operation, its answers to pings and its cancellation may still be on their way for this long. */
const LINGER_MS = 1_000;
/** The beginning of a notification. The arguments of a call may contain the same text further on. */
const NOTIFICATION = /^\{("jsonrpc":"2\.0",)?"method":"notifications\//;
/** Answers without a body (Fetch standard, "null body status"), and 202, with which servers accept a notification. */
const BODILESS = new Set([202, 204, 205, 304]);

/** The run that asks for an operation (a listing or a call), and its limits. */
export interface OperationRequest {
  readonly run: RunRef;
  readonly signal: AbortSignal;
  /** How long the server may take to answer the handshake. */
  readonly timeout_ms: number;
  /** Limit for all answers of the operation together. */
  readonly max_bytes: number;
}

export interface OperationLimits {
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
  /** The last answer if it was a failure by its status. */
  refusal(): Pick<OutboundStream, "status" | "content_type" | "body"> | null;
  /** Whether the server answered a request with 401. It has not carried out that request. */
  isUnauthorized(): boolean;
  /** Whether the last answer was neither JSON nor a stream. */
  isPage(): boolean;
  /** Closes the operation's streams. */
  end(): void;
}

/** Creates the `fetch` of one session. Outbound sends every message, only to the server's own origin. */
export function createTraffic(outbound: Outbound, url: URL) {
  let current: OperationState | null = null;
  let notifying = 0;

  async function fetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
    const state = current;
    if (state === null) throw new OutboundError("aborted", "the session is idle");
    const is_notification = typeof init.body === "string" && NOTIFICATION.test(init.body);
    if (is_notification) notifying += 1;
    try {
      state.sent += 1;
      if (state.sent > MAX_SENT) throw asksTooMuch();
      const answer = await send(outbound, { url, input, init, state });
      if (answer === null) return new Response(null, { status: 405 });
      state.status = answer.status < 400 ? null : answer.status;
      state.refusal = answer.status < 400 ? null : answer;
      state.is_unauthorized ||= answer.status === 401 && !is_notification && isRequest(init);
      state.is_page = answer.body.length > 0 && !answer.content_type.toLowerCase().includes("json");
      return asResponse(answer, state);
    } catch (error) {
      throw state.failed(error);
    } finally {
      if (is_notification) notifying -= 1;
    }
  }

  return {
    fetch,
    begin(limits: OperationLimits): Operation {
      const state = newState(limits);
      current = state;
      return {
        failure: () => state.failure,
        broken: state.broken.promise,
        status: () => state.status,
        refusal: () => state.refusal,
        isUnauthorized: () => state.is_unauthorized,
        isPage: () => state.is_page,
        end() {
          for (const close of state.streams) close();
          setTimeout(() => state.abort.abort(), LINGER_MS).unref();
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
interface OperationState {
  readonly credentials: readonly OpenedCredential[];
  readonly abort: AbortController;
  readonly broken: PromiseWithResolvers<never>;
  readonly streams: Set<() => void>;
  left_bytes: number;
  sent: number;
  received: number;
  status: number | null;
  refusal: ReturnType<Operation["refusal"]>;
  is_unauthorized: boolean;
  is_page: boolean;
  failure: unknown;
  /** Notes a failure, and returns it in the server's terms. */
  failed(error: unknown): unknown;
}

function newState({ credentials, max_bytes }: OperationLimits): OperationState {
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => {});
  const state: OperationState = {
    credentials,
    broken,
    abort: new AbortController(),
    streams: new Set(),
    left_bytes: max_bytes,
    sent: 0,
    received: 0,
    status: null,
    refusal: null,
    is_unauthorized: false,
    is_page: false,
    failure: null,
    failed(thrown) {
      const is_large = thrown instanceof OutboundError && thrown.code === "too_large";
      const error = is_large
        ? new OutboundError("too_large", `its answers are larger than ${max_bytes} bytes`)
        : thrown;
      // A later failure must not hide a reflected secret.
      if (!isReflection(state.failure)) state.failure = error;
      if (isFinal(error)) broken.reject(error);
      return error;
    },
  };
  return state;
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
  { url, input, init, state }: { url: URL; input: string | URL; init: RequestInit; state: OperationState },
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
    credentials: state.credentials,
    signal: init.signal == null ? state.abort.signal : AbortSignal.any([state.abort.signal, init.signal]),
    max_bytes: Math.max(0, state.left_bytes),
    max_redirects: MAX_REDIRECTS,
    timeout_ms: MAX_MS,
  });
  state.left_bytes -= answer.body.length;
  checkDepth(answer.body);
  return answer;
}

/** The readers of a parsed answer recurse into each level. */
function checkDepth(bytes: Buffer): void {
  if (isTooDeep(bytes.toString())) throw new OutboundError("limit_exceeded", "its JSON nests deeper than 1,000 levels");
}

function asResponse({ status, headers, content_type, body, events }: OutboundStream, state: OperationState): Response {
  const shown = new Headers({ "content-type": content_type });
  const session = headers["mcp-session-id"];
  if (session !== undefined) shown.set("mcp-session-id", session);
  if (events !== null) return new Response(toStream(events, state), { status, headers: shown });
  const read = BODILESS.has(status) ? null : new Uint8Array(withoutNullFields(body, content_type));
  return new Response(read, { status, headers: shown });
}

/** Passes the events on as they come, within the operation's limits. */
function toStream(events: AsyncGenerator<Buffer, void>, state: OperationState): ReadableStream<Uint8Array> {
  let is_over = false;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const close = () => {
          if (is_over) return;
          is_over = true;
          state.streams.delete(close);
          controller.close();
        };
        state.streams.add(close);
      },
      async pull(controller) {
        try {
          const { value } = await events.next();
          if (is_over) return;
          if (value === undefined) {
            is_over = true;
            return controller.close();
          }
          noteEvent(value, state);
          if (!is_over) controller.enqueue(withoutNullFields(value, "text/event-stream"));
        } catch (thrown) {
          if (is_over) return;
          is_over = true;
          controller.error(state.failed(thrown));
        }
      },
      cancel() {
        is_over = true;
      },
    },
    { highWaterMark: 0 },
  );
}

function noteEvent(event: Buffer, state: OperationState): void {
  state.left_bytes -= event.length;
  state.received += 1;
  if (state.left_bytes < 0) throw new OutboundError("too_large", "");
  if (state.received > MAX_MESSAGES) {
    throw new OutboundError("limit_exceeded", `it sends more than ${MAX_MESSAGES} messages in one operation`);
  }
  checkDepth(event);
}
