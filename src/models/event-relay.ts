import { generatedText } from "./generated-text.ts";
import type { Counts, Model, ProviderRequest } from "./models.types.ts";
import { brokenProvider } from "./provider-errors.ts";
import { countsOfUsage, estimateCounts, estimateTokens } from "./token-count.ts";

/**
 * Relays a provider's server-sent events as text. What most events need is nothing at all, so they are not parsed: whole
 * events go on as they came, many at once, with only the model's name exchanged. Parsed are the first event, those that
 * carry usage, and, if it comes to counting, what was kept.
 *
 * Looking for `"usage"` in raw text is safe because a quote inside a JSON string is always escaped: the search can only
 * match a key.
 */

/** An event longer than this is an attack or a fault. */
const MAX_EVENT_CHARACTERS = 1_048_576;
const MODEL_FIELD = /"model"\s*:\s*"(?:[^"\\]|\\.)*"/;
const USAGE_OBJECT = /"usage"\s*:\s*\{/;
const FINISH_REASON = /"finish_reason"\s*:\s*"/;
const ERROR_FIELD = /"error"\s*:/;
/** Raw signs that a block may hold an event which must not simply go on. */
const SIGN = /"usage"|\[DONE\]|"error"/;

export interface EventRelay {
  /** Takes the next text and returns the events to write out, "" when none is whole yet. Throws on what is no chunk. */
  push(text: string): string;
  /** The provider closed the stream. Throws when it was not at its end. */
  end(): void;
  /** `[DONE]` has come. */
  finished(): boolean;
  identity(): { id: string; created: number };
  counts(request: ProviderRequest): Counts;
}

interface Chunk {
  id?: unknown;
  created?: unknown;
  model?: unknown;
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
}

/** A relay for one stream of `model`, whose events are to name it by our id. Throws PurserErrors. */
export function createEventRelay(model: Model): EventRelay {
  const ours = `"model":${JSON.stringify(model.id)}`;
  let tail = "";
  let theirs: string | null = null;
  let identity = { id: "", created: 0 };
  let usage: unknown;
  let finished = false;
  const kept: string[] = [];
  /** How many of `kept` the last usage report covers. */
  let reported_blocks = 0;
  let read = { start: 0, end: 0, text: "" };

  /** The provider's name of the model, as it is written in the first chunk. */
  function learn(block: string): void {
    for (let start = 0, end = 0; start < block.length; start = end + 2) {
      end = block.indexOf("\n\n", start);
      const payload = payloadOf(block.slice(start, end));
      if (payload === "" || payload === "[DONE]") continue;
      const chunk = parseChunk(payload);
      identity = { id: String(chunk.id ?? ""), created: Number(chunk.created) || 0 };
      theirs = MODEL_FIELD.exec(payload)?.[0] ?? ours;
      return;
    }
  }

  function parseChunk(payload: string): Chunk {
    const chunk = parsedOrNull(payload);
    if (chunk === null) throw brokenProvider(model, "an event that is no chunk");
    if (chunk.error !== undefined && chunk.error !== null) throw brokenProvider(model, "an error event");
    return chunk;
  }

  function relayEvent(event: string): string {
    const payload = payloadOf(event);
    if (finished || payload === "[DONE]") {
      finished = true;
      return "";
    }
    if (ERROR_FIELD.test(payload)) parseChunk(payload);
    if (!USAGE_OBJECT.test(payload)) return `${event}\n\n`;
    const { usage: reported, ...chunk } = parseChunk(payload);
    if (reported !== undefined && reported !== null) usage = reported;
    const empty = !Array.isArray(chunk.choices) || chunk.choices.length === 0;
    return empty ? "" : `data: ${JSON.stringify(chunk)}\n\n`;
  }

  function relayBlock(block: string): string {
    if (theirs === null) learn(block);
    const sign = block.search(SIGN);
    const usage_before = usage;
    let out = block;
    if (finished) out = "";
    else if (sign !== -1) {
      const start = sign === 0 ? 0 : startOfEvent(block, sign);
      out = block.slice(0, start) + eventsOf(block.slice(start)).map(relayEvent).join("");
    }
    if (theirs !== null && theirs !== ours) out = out.replaceAll(theirs, () => ours);
    if (out !== "") kept.push(out);
    if (usage !== usage_before) reported_blocks = kept.length;
    return out;
  }

  /** The text generated in `kept` from a block on. It is asked for every second: what was read is not read again. */
  function textFrom(start: number): string {
    if (read.start !== start) read = { start, end: start, text: "" };
    read.text += keptText(kept.slice(read.end));
    read.end = kept.length;
    return read.text;
  }

  return {
    push(text) {
      let buffer = tail + text;
      if (buffer.includes("\r")) buffer = buffer.replaceAll("\r\n", "\n");
      const end = buffer.lastIndexOf("\n\n") + 2;
      tail = end === 1 ? buffer : buffer.slice(end);
      if (tail.length > MAX_EVENT_CHARACTERS) throw brokenProvider(model, "an event without end");
      return end === 1 ? "" : relayBlock(buffer.slice(0, end));
    },
    end() {
      if (!finished && usage === undefined && !kept.some((block) => FINISH_REASON.test(block))) {
        throw brokenProvider(model, "a stream that was cut off");
      }
    },
    finished: () => finished,
    identity: () => identity,
    counts(request) {
      const reported = countsOfUsage(usage);
      if (reported === null) return estimateCounts(request, textFrom(0));
      // Some providers report as they go. Whoever leaves between two reports pays also for what came since the last.
      const since = estimateTokens(textFrom(reported_blocks));
      if (since === 0) return reported;
      return { ...reported, output_tokens: reported.output_tokens + since, estimated: true };
    },
  };
}

function keptText(kept: readonly string[]): string {
  let text = "";
  for (const event of kept.flatMap(eventsOf)) text += generatedText(parsedOrNull(payloadOf(event))?.choices);
  return text;
}

function startOfEvent(block: string, at: number): number {
  const boundary = block.lastIndexOf("\n\n", at);
  return boundary === -1 ? 0 : boundary + 2;
}

function eventsOf(block: string): string[] {
  return block.split("\n\n").filter((event) => event !== "");
}

/** The data of one event, "" for a comment. */
function payloadOf(event: string): string {
  if (event.startsWith("data: ") && !event.includes("\n")) return event.slice(6);
  const data = event.split("\n").filter((line) => line.startsWith("data:"));
  return data.map((line) => line.slice(5).trimStart()).join("\n");
}

function parsedOrNull(payload: string): Chunk | null {
  try {
    const chunk = JSON.parse(payload) as Chunk | null;
    return typeof chunk === "object" ? chunk : null;
  } catch {
    return null;
  }
}
