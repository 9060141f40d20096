import { Agent, type Dispatcher } from "undici";
import { activeSpan } from "../../platform/telemetry/tracing.ts";

const agent = new Agent({ keepAliveTimeout: 30_000, connectTimeout: 10_000 });
/** An answer whose reader is slower than its provider is not read further than this. */
const AHEAD_BYTES = 65_536;
/** Time to read the few bytes after a stream's end, so that the connection can be reused. */
const DRAIN_MS = 1_000;

/** A request to a provider. */
export interface ProviderPost {
  origin: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
  signal: AbortSignal;
  /** Called when the request is written: after the connection is open, before any answer. */
  onSent?: (() => void) | undefined;
  headersTimeout: number;
  bodyTimeout: number;
}

/** A provider's answer, read as it arrives. */
export interface ProviderAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The bytes since the last read, as soon as some have arrived; null at the end. Rejects if the answer breaks off. */
  read(): Promise<Buffer | null>;
  /** Closes the connection, unless the answer has ended. */
  destroy(): void;
  /** Reads and drops the rest, so that the connection is kept. Closes it if the answer does not end. */
  drain(): void;
}

/**
 * Posts to a provider. Rejects with undici's error, or with the reason of `signal`. It uses undici's `dispatch`, because
 * `request` and its stream take as much time as all other work on an answer.
 */
export function post({ signal, onSent, headers, ...options }: ProviderPost): Promise<ProviderAnswer> {
  const traceparent = activeSpan()?.traceparent ?? null;
  const sent = traceparent === null ? headers : { ...headers, traceparent };
  return new Promise((resolve, reject) => {
    let connection: Dispatcher.DispatchController | null = null;
    const body = createBody(() => connection);
    const fail = (error: unknown) => {
      signal.removeEventListener("abort", abort);
      body.fail(error);
      reject(error);
    };
    const abort = () => {
      connection?.abort(signal.reason);
      fail(signal.reason);
    };
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    agent.dispatch(
      { ...options, headers: sent, method: "POST" },
      {
        onRequestStart(controller) {
          connection = controller;
          if (signal.aborted) controller.abort(signal.reason);
          else onSent?.();
        },
        onResponseStart(_controller, status, headers) {
          // An answer of 1xx goes before the answer itself.
          if (status >= 200) resolve({ status, headers, ...body.reader });
        },
        onResponseData: (_controller, chunk) => body.add(chunk),
        onResponseEnd() {
          signal.removeEventListener("abort", abort);
          body.end();
        },
        onResponseError: (_controller, error) => fail(error),
      },
    );
  });
}

/** The pieces of a body between its connection and its reader. */
function createBody(connectionOf: () => Dispatcher.DispatchController | null) {
  let pieces: Buffer[] = [];
  let bytes = 0;
  let state: "open" | "dropped" | "ended" | { error: unknown } = "open";
  let wake: (() => void) | null = null;
  let draining: NodeJS.Timeout | undefined;

  function taken(): Buffer {
    const all = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    pieces = [];
    bytes = 0;
    connectionOf()?.resume();
    return all;
  }
  function change(next: typeof state): void {
    if (state === "open" || state === "dropped") state = next;
    clearTimeout(draining);
    wake?.();
  }
  async function read(): Promise<Buffer | null> {
    if (pieces.length === 0 && state === "open") {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      wake = null;
    }
    if (pieces.length > 0) return taken();
    if (typeof state === "object") throw state.error;
    return null;
  }
  function destroy(): void {
    const is_open = state === "open" || state === "dropped";
    const error = new Error("the answer was left");
    change({ error });
    if (is_open) connectionOf()?.abort(error);
  }
  return {
    add(chunk: Buffer): void {
      if (state !== "open") return;
      pieces.push(chunk);
      bytes += chunk.length;
      if (bytes >= AHEAD_BYTES) connectionOf()?.pause();
      wake?.();
    },
    end: () => change("ended"),
    fail: (error: unknown) => change({ error }),
    reader: {
      read,
      destroy,
      drain(): void {
        if (state !== "open") return;
        change("dropped");
        connectionOf()?.resume();
        draining = setTimeout(destroy, DRAIN_MS).unref();
      },
    },
  };
}

/** The body's text. Throws if it is longer than `limit` bytes, because only a broken provider sends so much. */
export async function readText({ read, destroy }: ProviderAnswer, limit: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for (let piece = await read(); piece !== null; piece = await read()) {
    bytes += piece.length;
    if (bytes > limit) {
      destroy();
      throw new Error("an answer without end");
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}
