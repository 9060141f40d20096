import { setTimeout as after } from "node:timers/promises";
import { request } from "undici";
import { RELEASE } from "../lib/release.ts";
import { backoff } from "../lib/retry.ts";
import type { Log } from "./log.ts";
import { envelopeOf } from "./otlp.ts";
import type { SpanAttributes, TracingSettings } from "./tracing.ts";

/** The size of a request to the collector. It has space for one more span after it is full. */
const FULL_BYTES = 256 * 1_024;
/** Longer spans are dropped. A character has at most three bytes. */
const SPAN_CHARACTERS = 16 * 1_024;
const BATCH_BYTES = FULL_BYTES + 3 * SPAN_CHARACTERS + 16;
/** Full batches that wait for the collector: 8 MiB. Later spans are dropped. */
const MOST_WAITING = 32;
/** Sent batches whose memory is kept for the next ones. */
const MOST_SPARE = 2;
const DELAY_MS = 5_000;
/** Pauses before the next attempts. Then the batch is dropped. */
const RETRY_MS = backoff({ first: 1_000, max: 8_000, retries: 3 });
/** Statuses after which OTLP asks for another attempt. */
const RETRIED = new Set([429, 502, 503, 504]);
/** Timeout for the last spans at a shutdown. */
const CLOSE_MS = 3_000;

interface Options extends Pick<TracingSettings, "url" | "headers" | "timeout_ms"> {
  resource: SpanAttributes;
  log: Log;
}

/** Sends encoded spans, one batch after the other. Logs the first failure, and the first success after it. */
export function createSpanExport({ url, headers, timeout_ms, resource, log }: Options) {
  const { head, tail } = envelopeOf(resource, RELEASE);
  const closing = new AbortController();
  const waiting: { batch: Buffer; bytes: number }[] = [];
  // New memory costs as much as its spans, because the system clears it.
  const spare: Buffer[] = [];
  // Spans are copied out of the heap at once, because the garbage collector would move them several times.
  let batch: Buffer = Buffer.allocUnsafeSlow(BATCH_BYTES);
  let used = batch.write(head);
  let is_empty = true;
  let timer: NodeJS.Timeout | null = null;
  let sending: Promise<void> | null = null;
  let is_failing = false;

  /** Null: accepted. Otherwise the reason, and whether another attempt may succeed. */
  async function attempt(body: Buffer): Promise<{ reason: string; is_final: boolean } | null> {
    try {
      const answer = await request(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body,
        signal: AbortSignal.timeout(timeout_ms),
      });
      await answer.body.dump();
      const { statusCode } = answer;
      return statusCode < 300 ? null : { reason: `status ${statusCode}`, is_final: !RETRIED.has(statusCode) };
    } catch (error) {
      return { reason: (error as Error).message, is_final: false };
    }
  }

  function note(failure: { reason: string } | null): void {
    if ((failure !== null) === is_failing) return;
    is_failing = failure !== null;
    const error = failure?.reason;
    if (is_failing) log.warn({ error }, "traces cannot be sent: check OTEL_EXPORTER_OTLP_ENDPOINT");
    else log.info("traces are sent again");
  }

  async function send(body: Buffer): Promise<void> {
    for (const pause_ms of [...RETRY_MS, null]) {
      const failure = await attempt(body);
      note(failure);
      if (failure === null || failure.is_final || pause_ms === null || closing.signal.aborted) return;
      await after(pause_ms, null, { signal: closing.signal, ref: false }).catch(() => {});
    }
  }

  async function sendAll(): Promise<void> {
    for (let full = waiting.shift(); full !== undefined; full = waiting.shift()) {
      await send(full.batch.subarray(0, full.bytes));
      if (spare.length < MOST_SPARE) spare.push(full.batch);
    }
    sending = null;
  }

  /** Hands the current batch over. */
  function finish(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (is_empty) return;
    used += batch.write(tail, used);
    waiting.push({ batch, bytes: used });
    batch = spare.pop() ?? Buffer.allocUnsafeSlow(BATCH_BYTES);
    used = batch.write(head);
    is_empty = true;
    sending ??= sendAll();
  }

  return {
    add(span: string): void {
      if (waiting.length === MOST_WAITING || span.length > SPAN_CHARACTERS) return;
      used += batch.write(is_empty ? span : `,${span}`, used);
      is_empty = false;
      if (used > FULL_BYTES) finish();
      else timer ??= setTimeout(finish, DELAY_MS).unref();
    },
    /** Sends the spans that are left. */
    async close(): Promise<void> {
      closing.abort();
      finish();
      await Promise.race([sending, after(CLOSE_MS, null, { ref: false })]);
    },
  };
}
