import { isJsonObject, isTooDeep } from "../../platform/lib/json.ts";
import {
  createChoiceCompleter,
  isFailedAnswer,
  OTHER_SHAPE,
  objectsIn,
  reshapeChoices,
  saidChoices,
} from "./answer-shape.ts";
import { newIdentity } from "./chunks.ts";
import { errorFields } from "./error-fields.ts";
import { generatedBytes } from "./generated-text.ts";
import type { CallOptions, Counts, ProviderRequest } from "./models.types.ts";
import { brokenProvider, failedAnswer } from "./provider-errors.ts";
import { markRoute } from "./reasoning.ts";
import { createCallCompleter } from "./streamed-calls.ts";
import { estimateCounts, tokensOfBytes } from "./token-count.ts";
import { createUsageReports } from "./usage-report.ts";

/**
 * Relays a provider's server-sent events as text. Most events pass through unparsed, many at once, with only the
 * model's name replaced. It parses the first event of each choice, events with usage, calls or an error and, to estimate
 * counts, the kept events.
 *
 * Searching for `"usage"` in raw text is safe: a quote inside a JSON string is always escaped, so the search matches
 * only a key.
 */

/** An event longer than this is an attack or a fault. */
const MAX_EVENT_CHARACTERS = 1_048_576;
/** Comments before the first chunk that are kept to be sent with it. A provider may send them for minutes. */
const MAX_EARLY_CHARACTERS = 65_536;
const MODEL_FIELD = /"model"\s*:\s*"(?:[^"\\]|\\.)*"/;
const USAGE_OBJECT = /"usage"\s*:\s*\{/;
/** A quote inside a JSON string is escaped, so this matches only the field. Some servers write an empty one in every chunk. */
export const FINISH_REASON = /"finish_reason"\s*:\s*"[^"]/;
/** Older vLLM and servers built on it: `{"object": "error", "message": …}`. */
const ERROR_FIELD = /"error"\s*:|"object"\s*:\s*"error"/;
/** An event with the name `error`, with any data. */
const ERROR_EVENT = /(?:^|\n)event:\s*error\s*(?:\n|$)/;
export const CALLS = /"tool_calls"\s*:\s*\[\s*\{/;
const DETAILS = /"reasoning_details"\s*:\s*\[/;
const NULL_CHOICES = /"choices"\s*:\s*null/;
/** Data that is no object: `[DONE]`, or `null`, with which some servers keep a connection open. */
const NO_OBJECT = /(?:^|\n)data:[ \t]*[^{\s]/;
/** Text that marks a block as one that may hold an event which needs parsing. */
const SIGN = new RegExp(
  `"usage"|"error"|${CALLS.source}|(?:^|\\n)event:\\s*error|${OTHER_SHAPE.source}|${NULL_CHOICES.source}|${NO_OBJECT.source}`,
);
/** With routes, each piece of reasoning is marked with the route. */
const SIGN_WITH_DETAILS = new RegExp(`${SIGN.source}|"reasoning_details"`);

export interface EventRelay {
  /**
   * Takes the next text and returns the events to write out, "" if none is complete. Comments before the first chunk are
   * returned with it, because they do not begin the answer. Throws if an event is not a chunk.
   */
  push(text: string): string;
  /** The last event of a closed stream that lacks the empty line after it, "" if it is incomplete. */
  rest(): string;
  /** Called when the provider closes the stream. Throws if the stream is incomplete. */
  end(): void;
  /** Whether `[DONE]` has arrived. Throws if the last event that `push` took is not a chunk. */
  finished(): boolean;
  identity(): { id: string; created: number };
  counts(): Counts;
}

type Fields = Record<string, unknown>;

interface Chunk {
  id?: unknown;
  created?: unknown;
  object?: unknown;
  model?: unknown;
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
}

/**
 * A relay for the stream of one request. Its output names the model by our id. Throws PurserErrors, with the provider's
 * words but for `secrets`.
 */
export function createEventRelay(
  request: ProviderRequest,
  onDisbelieved?: CallOptions["onDisbelieved"],
  secrets: readonly string[] = [],
): EventRelay {
  const { model } = request;
  const ours = `"model":${JSON.stringify(model.id)}`;
  let tail = "";
  let is_start = true;
  /** The text before the first chunk: comments of a provider that queues the request. */
  let early = "";
  let has_begun = false;
  /** Null until the provider has named its model. */
  let theirs: string | null = null;
  /** The provider's identity of the stream. Some servers send none. */
  let known = { id: "", created: 0 };
  const own = newIdentity();
  const reports = createUsageReports(request, onDisbelieved);
  const completeCalls = createCallCompleter();
  const completer = createChoiceCompleter(request.request.n ?? 1);
  const lacksChoices = createFieldSearch('"choices"');
  const lacksDelta = createFieldSearch('"delta"');
  let finished = false;
  let fault: unknown = null;
  const kept: string[] = [];
  /** The number of blocks in `kept` that the last usage report covers. */
  let reported_blocks = 0;
  /** The number of blocks in `kept` before the last chunk with usage alone, which ends a stream; null without one. */
  let closed_blocks: number | null = null;
  const bytesFrom = createByteCounter(kept);
  const receivedFrom = createByteCounter(kept);

  /** Reads the stream's identity and the provider's name of the model from the first chunks, until they have both. */
  function learn(all: readonly string[]): void {
    for (const event of all) {
      const payload = payloadOf(event);
      if (payload === "[DONE]" || saysNothing(payload)) continue;
      const chunk = chunkOrNull(payload);
      // The events before it are relayed first.
      if (chunk === null || isError(chunk)) return;
      has_begun = true;
      const { id, created } = known;
      known = { id: id || String(chunk.id ?? ""), created: created || Number(chunk.created) || 0 };
      // Azure begins with a chunk that has neither name nor choices.
      if (!chunk.model && objectsIn(chunk.choices).length === 0) continue;
      theirs = MODEL_FIELD.exec(payload)?.[0] ?? ours;
      return;
    }
  }

  function parseChunk(payload: string): Chunk {
    const chunk = chunkOrNull(payload);
    if (chunk === null) throw brokenProvider(model, "an event that is no chunk");
    if (isError(chunk)) throw failedAnswer(model, "an error event", { body: chunk, secrets });
    return chunk;
  }

  function relayEvent(event: string): string {
    const payload = payloadOf(event);
    if (finished || payload === "[DONE]") {
      finished = true;
      return "";
    }
    if (ERROR_EVENT.test(event)) throw failedAnswer(model, "an error event", { body: payload, secrets });
    if (payload !== "" && saysNothing(payload)) return "";
    if (ERROR_FIELD.test(payload)) parseChunk(payload);
    const has_details = model.route !== null && DETAILS.test(payload);
    const is_other = OTHER_SHAPE.test(payload);
    const has_calls = CALLS.test(payload);
    const lacks_field = lacksChoices(event) || lacksDelta(event);
    const lacks_choices = (lacks_field && chunkOrNull(payload) !== null) || NULL_CHOICES.test(payload);
    const must_change = USAGE_OBJECT.test(payload) || has_details || is_other || lacks_choices;
    const is_complete = payload === "" || completer.isDone();
    if (!must_change && !has_calls && is_complete) return `${event}\n\n`;
    const chunk = parseChunk(payload);
    if (isFailedAnswer(chunk)) throw failedAnswer(model, "an answer that failed", { body: chunk, secrets });
    // Some servers end with a report of zeros or without figures, which must not replace a good one.
    const has_report = reports.take(chunk as Fields, () => receivedFrom(0) + generatedBytes(chunk.choices));
    const said = saidChoices(chunk.choices);
    const is_empty = said.length === 0 && (has_report || (Array.isArray(chunk.choices) && chunk.choices.length > 0));
    if (is_empty) {
      if (has_report) closed_blocks = kept.length;
      return "";
    }
    // OpenAI's clients fail without a list.
    chunk.choices = said;
    const has_completed = !is_complete && (completer.complete(said) || chunk.model === "");
    if (is_other) reshapeChoices(said);
    const has_numbered = has_calls && completeCalls(said);
    if (!must_change && !has_completed && !has_numbered) return `${event}\n\n`;
    if (has_details) markRoute(said, model);
    // Written again, the provider's name may have other spaces than in the first chunk.
    if ("model" in chunk) chunk.model = model.id;
    return `data: ${JSON.stringify(chunk)}\n\n`;
  }

  function relayBlock(block: string): string {
    const all = eventsOf(block);
    // Event by event, because most are too short to nest deeply.
    if (all.some(isTooDeep)) throw brokenProvider(model, "an event that nests too deeply");
    if (theirs !== null) return relayed(block, all);
    learn(all);
    const text = relayed(block, all);
    if (has_begun || early.length + text.length <= MAX_EARLY_CHARACTERS) early += text;
    if (!has_begun) return "";
    const begun = early;
    early = "";
    return begun;
  }

  function relayed(block: string, all: readonly string[]): string {
    if (finished) return "";
    const start = startOfChange(block, all);
    if (start === -1) return keep(block);
    const out = keep(block.slice(0, start)) + relayEvents(eventsOf(block.slice(start)));
    if (fault !== null && out === "") throw fault;
    return out;
  }

  /** The start of the first event that may need parsing; -1: the block passes through. */
  function startOfChange(block: string, all: readonly string[]): number {
    if (!completer.isDone() || all.some(lacksChoices) || all.some(lacksDelta)) return 0;
    const sign = block.search(model.route === null ? SIGN : SIGN_WITH_DETAILS);
    return sign === -1 ? -1 : startOfEvent(block, sign);
  }

  /** Relays the events before a faulty one, which have arrived and are charged. */
  function relayEvents(events: readonly string[]): string {
    let out = "";
    try {
      for (const event of events) {
        const before = reports.counts();
        out += keep(relayEvent(event));
        if (reports.counts() !== before) reported_blocks = kept.length;
      }
    } catch (error) {
      fault = error;
    }
    return out;
  }

  /** Names our model in the text, and keeps it for the counts. */
  function keep(text: string): string {
    const named = theirs === null || theirs === ours ? text : text.replaceAll(theirs, () => ours);
    if (named !== "") kept.push(named);
    return named;
  }

  return {
    push(text) {
      let buffer = tail + text;
      if (is_start && buffer !== "") {
        is_start = false;
        if (buffer.startsWith("\uFEFF")) buffer = buffer.slice(1);
      }
      if (buffer.includes("\r")) buffer = buffer.replaceAll("\r\n", "\n");
      const end = buffer.lastIndexOf("\n\n") + 2;
      tail = end === 1 ? buffer : buffer.slice(end);
      if (tail.length > MAX_EVENT_CHARACTERS) throw brokenProvider(model, "an event without end");
      return end === 1 ? "" : relayBlock(buffer.slice(0, end));
    },
    rest() {
      const last = tail.trimEnd();
      const payload = payloadOf(last);
      if (payload !== "[DONE]" && chunkOrNull(payload) === null) return "";
      tail = "";
      return relayBlock(`${last}\n\n`);
    },
    end() {
      // Usage in a chunk with text is a report during the stream, not its end.
      const is_closed = closed_blocks !== null && bytesFrom(closed_blocks) === 0;
      if (!finished && !is_closed && !kept.some((block) => FINISH_REASON.test(block))) {
        // Some servers answer an error in one piece.
        if (kept.length === 0 && tail.trim() !== "")
          throw failedAnswer(model, "an answer with an error", { body: tail, secrets });
        throw brokenProvider(model, "a stream that was cut off");
      }
    },
    finished() {
      if (fault !== null) throw fault;
      return finished;
    },
    identity: () => ({ id: known.id || own.id, created: known.created || own.created }),
    counts() {
      const usage = reports.counts();
      if (usage === null) return estimateCounts(request, receivedFrom(0));
      // Some providers report during the stream. A caller that leaves between two reports also pays for the later text.
      const since = tokensOfBytes(bytesFrom(reported_blocks));
      if (since === 0) return usage;
      return { ...usage, output_tokens: usage.output_tokens + since, estimated: true };
    },
  };
}

/**
 * Tells whether an event may be a chunk without a field that OpenAI's clients need. Most chunks have it at the place of
 * the chunk before, and need no search.
 */
function createFieldSearch(name: string): (event: string) => boolean {
  let usual_place = 0;
  return (event) => {
    if (event.startsWith(name, usual_place)) return false;
    usual_place = event.indexOf(name);
    return usual_place === -1;
  };
}

/**
 * Counts the bytes of the text generated in `kept` from a block on. Counts are asked for every second and reports may come
 * with every event, so it reads each block only once while the start is the same.
 */
function createByteCounter(kept: readonly string[]): (start: number) => number {
  let read = { start: 0, end: 0, bytes: 0 };
  return (start) => {
    if (read.start !== start) read = { start, end: start, bytes: 0 };
    for (const { choices } of kept.slice(read.end).flatMap(chunksIn)) read.bytes += generatedBytes(choices);
    read.end = kept.length;
    return read.bytes;
  };
}

function isError(chunk: Chunk): boolean {
  const { error, object, choices } = chunk;
  return Boolean(error) || object === "error" || (choices == null && errorFields(chunk).message !== "");
}

/** The chunks in a block of a stream. */
export function chunksIn(block: string): Chunk[] {
  return eventsOf(block).flatMap((event) => chunkOrNull(payloadOf(event)) ?? []);
}

function startOfEvent(block: string, at: number): number {
  const boundary = block.lastIndexOf("\n\n", at);
  return boundary === -1 ? 0 : boundary + 2;
}

function eventsOf(block: string): string[] {
  return block.split("\n\n").filter((event) => event !== "");
}

/** The data of one event, "" for a comment. */
export function payloadOf(event: string): string {
  if (event.startsWith("data: ") && !event.includes("\n")) return event.slice(6);
  const data = event.split("\n").filter((line) => line.startsWith("data:"));
  return data.map((line) => line.slice(5).trimStart()).join("\n");
}

/** Whether the data of an event is empty or a JSON value that is no object. */
function saysNothing(payload: string): boolean {
  if (payload.startsWith("{")) return false;
  if (payload === "") return true;
  try {
    const value: unknown = JSON.parse(payload);
    return !isJsonObject(value);
  } catch {
    return false;
  }
}

/** The object in a JSON text; null for any other value or text. */
function chunkOrNull(payload: string): Chunk | null {
  try {
    const chunk = JSON.parse(payload) as Chunk | null;
    // A list would be read as the chunks in it.
    return typeof chunk === "object" && !Array.isArray(chunk) ? chunk : null;
  } catch {
    return null;
  }
}
