import { StringDecoder } from "node:string_decoder";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { isTooDeep, jsonOrUndefined } from "../../platform/lib/json.ts";
import type { AnswerPart } from "./answer-events.ts";
import type { CallOptions, Counts, ProviderRequest, ProviderStream } from "./models.types.ts";
import { type ProviderAnswer, post, readText } from "./provider-connections.ts";
import { brokenProvider, failureOfStatus, failureOfThrown } from "./provider-errors.ts";

/** Sends requests to providers, and gives what they answer to the reader of their dialect. */

/** No completion is larger. Reading stops at this size. */
export const MAX_ANSWER_BYTES = 33_554_432;
const MAX_ERROR_BYTES = 65_536;
/** Timeout of a stream of chat completions before its first byte and between two bytes. */
export const SILENCE_MS = 60_000;
/** Answers are read as they come. Without this header, a server may compress them. */
const PLAIN = { "accept-encoding": "identity" };

/** `secrets`: texts that no caller may see. */
export type Receiving = CallOptions & { secrets: readonly string[] };

/** Reads a stream of one dialect. */
export interface StreamReader {
  /** The parts in the next text. After a fault, the parts before it are returned first, and the next call throws. */
  push(text: string): AnswerPart[];
  /** The last parts, when the provider has closed the stream. Throws if it is incomplete. */
  close(): AnswerPart[];
  /** Whether the provider has said that the stream is complete. Throws the fault that `push` has found. */
  isDone(): boolean;
  counts(): Counts;
}

interface Sent {
  url: URL;
  headers: Record<string, string>;
  body: Buffer;
  /** The longest time before the first byte of a stream and between two bytes. */
  silence_ms: number;
  /** The field with the prompt, for errors about it. Absent: messages. */
  main?: "input";
}

/** Sends a request. Throws the failure for another status than 200. */
export async function send(
  { model, stream }: Pick<ProviderRequest, "model" | "stream">,
  { url, headers, body, silence_ms, main }: Sent,
  { signal, deadline_ms, onSent, secrets }: Receiving,
): Promise<ProviderAnswer> {
  const left_ms = Math.max(1, deadline_ms - monotonicMs());
  const answer = await post({
    origin: url.origin,
    path: url.pathname + url.search,
    headers: { ...headers, ...PLAIN },
    signal,
    onSent,
    body,
    headersTimeout: stream ? Math.min(left_ms, silence_ms) : left_ms,
    bodyTimeout: Math.min(left_ms, silence_ms),
  });
  if (answer.status === 200) return answer;
  const text = await readText(answer, MAX_ERROR_BYTES).catch(() => "");
  throw failureOfStatus({ status: answer.status, body: text, headers: answer.headers, secrets }, model, main);
}

/** The value of a whole answer; undefined for text that is no JSON, or that nests too deeply to be stored. */
export function wholeAnswer(text: string): unknown {
  return isTooDeep(text) ? undefined : jsonOrUndefined(text);
}

/** The parts that `reader` finds in an answer. */
export function partStream(
  answer: ProviderAnswer,
  reader: StreamReader,
  { model }: ProviderRequest,
  { signal, deadline_ms }: CallOptions,
): ProviderStream {
  const decoder = new StringDecoder("utf8");
  let bytes = 0;
  /** The next parts. */
  let read: AnswerPart[] = [];
  let is_closed = false;

  function partsIn(chunk: Buffer): AnswerPart[] {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw brokenProvider(model, "a stream without end");
    if (monotonicMs() > deadline_ms) throw errors.upstreamTimeout();
    return reader.push(decoder.write(chunk));
  }

  async function next(): Promise<IteratorResult<AnswerPart, undefined>> {
    try {
      for (;;) {
        const value = read.shift();
        if (value !== undefined) return { done: false, value };
        if (reader.isDone() || is_closed) break;
        const chunk = await answer.read();
        is_closed = chunk === null;
        read = chunk === null ? reader.close() : partsIn(chunk);
      }
    } catch (thrown) {
      answer.destroy();
      throw failureOfThrown(thrown, model, signal);
    }
    if (!is_closed) answer.drain();
    return { done: true, value: undefined };
  }

  return { parts: { next }, counts: reader.counts, cancel: answer.destroy };
}
