import type { EventSourceMessage } from "eventsource-parser";
import type { ExtraContent, FinishReason, ReasoningDetail, ToolCallDelta } from "../../api/contract/completions.ts";
import { newId } from "../../platform/lib/ids.ts";
import { fieldsOf, isJsonObject, isTooDeep } from "../../platform/lib/json.ts";
import { type AnswerEvent, type AnswerPart, type CallEvent, generatedBytes, newIdentity } from "./answer-events.ts";
import { createCallNumbers, isFailedAnswer, objectsIn, reshapeChoice, saidChoices } from "./chat-shape.ts";
import { errorFields } from "./error-fields.ts";
import { createEventReader } from "./event-reader.ts";
import type { CallOptions, ProviderRequest } from "./models.types.ts";
import type { StreamReader } from "./provider-answers.ts";
import { brokenProvider, failedAnswer } from "./provider-errors.ts";
import { noteResponseModel } from "./provider-spans.ts";
import { markRoute } from "./reasoning.ts";
import { estimateCounts, tokensOfBytes } from "./token-count.ts";
import { createUsageReports } from "./usage-report.ts";

/**
 * Reads streams of chat completions. Their chunks become events, and the chunks themselves are kept as text for callers
 * of the same API: as the provider wrote them, or written again where clients of OpenAI would fail at them.
 */

const MAX_EVENT_CHARACTERS = 1_048_576;
/** Text before the first chunk that is kept: comments, or an error that is no event. A provider may send it for minutes. */
const MAX_EARLY_CHARACTERS = 65_536;
/** A line of server-sent events. */
const EVENT_LINE = /^(?:data|event|id|retry)?:/m;

type Fields = Record<string, unknown>;

/** What the chunks of a choice have shown so far. */
interface ChoiceState {
  /** Null: the choice is beyond the number that was asked for, and gets no events. */
  choice: number | null;
  has_begun: boolean;
  /** It has text or calls. */
  has_said: boolean;
  has_finished: boolean;
  numberOf: ReturnType<typeof createCallNumbers>;
  calls: CallState[];
}
interface CallState {
  id: string;
  tool: CallEvent["tool"];
  has_begun: boolean;
  /** Arguments that came before the name. */
  early: string;
  extra: { extra_content?: ExtraContent };
}

/** A reader of the stream of one request. Throws PurserErrors, with the provider's words but for `secrets`. */
export function createChatReader(
  request: ProviderRequest,
  onDisbelieved?: CallOptions["onDisbelieved"],
  secrets: readonly string[] = [],
): StreamReader {
  const { model } = request;
  const count = request.request.n ?? 1;
  const our_model = `"model":${JSON.stringify(model.id)}`;
  const reports = createUsageReports(request, onDisbelieved);
  const choices = new Map<unknown, ChoiceState>();
  const own = newIdentity();
  let identity = { id: "", created: 0 };
  let has_begun = false;
  let has_started = false;
  let has_model = false;
  let is_closing = false;
  let tier: unknown = null;
  /** The beginning of a stream until its first chunk. */
  let head = "";
  let parts: AnswerPart[] = [];
  let events: AnswerEvent[] = [];
  let text = "";
  /** Of the generated text: in all, at the last believed report, and at the last chunk with a report alone. */
  let bytes = 0;
  let reported_bytes = 0;
  let closed_bytes: number | null = null;

  const source = createEventReader(model, {
    max_characters: MAX_EVENT_CHARACTERS,
    read,
    onComment(comment) {
      if (has_begun || text.length + comment.length <= MAX_EARLY_CHARACTERS) text += `: ${comment}\n\n`;
    },
  });

  function read({ event, data }: EventSourceMessage): void {
    if (data.trim() === "[DONE]") {
      source.end();
      addEnds();
      return;
    }
    if (event === "error") throw failedAnswer(model, "an error event", { body: data, secrets });
    const chunk = chunkOrNull(data);
    if (chunk !== null) readChunk(chunk, data);
  }

  /** Null: a JSON value that is no object, with which some servers keep a connection open. */
  function chunkOrNull(data: string): Fields | null {
    if (isTooDeep(data)) throw brokenProvider(model, "an event that nests too deeply");
    try {
      const chunk: unknown = JSON.parse(data);
      return isJsonObject(chunk) ? chunk : null;
    } catch {
      if (is_closing) return null; // the connection was cut within the event
      throw brokenProvider(model, "an event that is no chunk");
    }
  }

  function readChunk(chunk: Fields, data: string): void {
    if (isError(chunk)) throw failedAnswer(model, "an error event", { body: chunk, secrets });
    has_begun = true;
    if (!has_model && chunk.model) {
      has_model = true;
      noteResponseModel(chunk.model);
    }
    if (isFailedAnswer(chunk)) throw failedAnswer(model, "an answer that failed", { body: chunk, secrets });
    const given = chunk.choices;
    const is_ordinary = Array.isArray(given) && given.every(isOrdinary);
    const said = is_ordinary ? (given as Fields[]) : saidChoices(given, hasSaid);
    let is_changed = !is_ordinary;
    identity = { id: identity.id || String(chunk.id ?? ""), created: identity.created || Number(chunk.created) || 0 };
    // Azure begins with a chunk that has neither name nor choices.
    if (!has_started && (chunk.model || said.length > 0)) addStart();
    if (typeof chunk.service_tier === "string" && chunk.service_tier !== tier) {
      tier = chunk.service_tier;
      events.push({ type: "service_tier", tier: chunk.service_tier });
    }
    const earlier = events.length;
    for (const [place, choice] of said.entries()) is_changed = readChoice(choice, place) || is_changed;
    const added = events.splice(earlier);
    bytes += generatedBytes(added);
    const has_report = takeReport(chunk);
    if (said.length === 0 && (has_report || (Array.isArray(given) && given.length > 0))) {
      if (has_report) closed_bytes = bytes;
      events.push(...added);
      return;
    }
    // OpenAI's clients fail without a list.
    chunk.choices = said;
    const has_finish = added.some(({ type }) => type === "finish");
    if (has_finish) endPart();
    events.push(...added);
    text += `data: ${is_changed || has_report ? rewritten(chunk) : named(chunk, data)}\n\n`;
    if (has_finish) endPart();
  }

  function takeReport(chunk: Fields): boolean {
    if (!mayReport(chunk)) return false;
    const counts = reports.counts();
    // Some servers end with a report of zeros or without figures, which must not replace a good one.
    const has_report = reports.take(chunk, () => bytes);
    if (reports.counts() !== counts) reported_bytes = bytes;
    return has_report;
  }

  /** Reads a choice and completes it for OpenAI's clients. Returns whether it has changed. */
  function readChoice(choice: Fields, place: number): boolean {
    let is_changed = reshapeChoice(choice);
    if (!Number.isInteger(choice.index)) {
      choice.index = place;
      is_changed = true;
    }
    const state = findChoice(choice.index as number, place);
    const delta = choice.delta as Fields;
    if (!state.has_begun && delta.role !== "assistant") {
      delta.role = "assistant";
      is_changed = true;
    }
    state.has_begun = true;
    if (model.route !== null && Array.isArray(delta.reasoning_details)) {
      markRoute([choice], model);
      is_changed = true;
    }
    const before = events.length;
    addTexts(delta, state.choice);
    for (const call of objectsIn(delta.tool_calls)) is_changed = readCall(call, state) || is_changed;
    state.has_said ||= events.length > before;
    if (typeof choice.finish_reason === "string" && state.has_finished) {
      choice.finish_reason = null;
      is_changed = true;
    } else if (typeof choice.finish_reason === "string") {
      state.has_finished = true;
      const stop_sequence = typeof choice.stop_reason === "string" ? choice.stop_reason : null;
      add(state.choice, { type: "finish", reason: choice.finish_reason as FinishReason, stop_sequence });
    }
    return is_changed;
  }

  function findChoice(index: number, place: number): ChoiceState {
    const known = choices.get(index);
    if (known !== undefined) return known;
    const choice = count === 1 ? (place === 0 ? 0 : null) : index >= 0 && index < count ? index : null;
    const state = {
      choice,
      has_begun: false,
      has_said: false,
      has_finished: false,
      numberOf: createCallNumbers(),
      calls: [],
    };
    choices.set(index, state);
    return state;
  }

  function hasSaid({ index }: Fields, place: number): boolean {
    return choices.get(Number.isInteger(index) ? index : place)?.has_said === true;
  }

  function addTexts(delta: Fields, choice: number | null): void {
    const { content, refusal, reasoning_content, reasoning, reasoning_details } = delta;
    const thought = reasoning_content || reasoning;
    if (typeof thought === "string" && thought !== "") {
      add(choice, { type: "reasoning", text: thought, ...(reasoning === thought ? { field: "reasoning" } : {}) });
    }
    if (Array.isArray(reasoning_details)) {
      add(choice, { type: "reasoning_details", details: objectsIn(reasoning_details) as unknown as ReasoningDetail[] });
    }
    if (typeof content === "string" && content !== "") add(choice, { type: "text", text: content });
    if (typeof refusal === "string" && refusal !== "") add(choice, { type: "refusal", text: refusal });
  }

  function readWhole(): void {
    const answer = chunkOrNull(head);
    if (answer === null || objectsIn(answer.choices).length === 0)
      throw failedAnswer(model, "an answer with an error", { body: head, secrets });
    readChunk({ ...answer, object: "chat.completion.chunk" }, "");
    addEnds();
  }

  /** Gives a piece of a call its number, and the first one an id and a type. Returns whether it has changed. */
  function readCall(piece: Fields, state: ChoiceState): boolean {
    const at = state.numberOf(piece as ToolCallDelta);
    let is_changed = piece.index !== at;
    piece.index = at;
    let call = state.calls[at];
    if (call === undefined) {
      if (typeof piece.id !== "string" || piece.id === "" || state.calls.some(({ id }) => id === piece.id)) {
        piece.id = `call_${newId()}`;
        is_changed = true;
      }
      const tool = piece.custom == null ? "function" : "custom";
      if (!piece.type) {
        piece.type = tool;
        is_changed = true;
      }
      call = { id: piece.id as string, tool, has_begun: false, early: "", extra: {} };
      state.calls[at] = call;
    }
    const called = fieldsOf(piece.function ?? piece.custom);
    const said = called.arguments ?? called.input;
    const given = typeof said === "string" ? said : "";
    const { id, tool } = call;
    if (call.has_begun) {
      if (given !== "") add(state.choice, { type: "arguments", at, tool, text: given });
      return is_changed;
    }
    call.early += given;
    if (isJsonObject(piece.extra_content)) call.extra = { extra_content: piece.extra_content };
    // Some providers repeat the name in every piece, so only the first begins the call.
    if (typeof called.name === "string" && called.name !== "") {
      call.has_begun = true;
      add(state.choice, { type: "call", at, tool, id, name: called.name, text: call.early, ...call.extra });
    }
    return is_changed;
  }

  /** Adds an event of a choice, unless the choice is beyond the number that was asked for. */
  function add(choice: number | null, event: ChoiceEvent): void {
    if (choice !== null) events.push({ ...event, choice } as AnswerEvent);
  }

  function addStart(): void {
    has_started = true;
    events.push({
      type: "start",
      id: identity.id || own.id,
      created: identity.created || own.created,
      model: model.id,
    });
  }

  /** The end of each choice whose provider sent none: OpenAI's clients need it. */
  function addEnds(): void {
    if (!has_started) addStart();
    has_begun = true;
    if (choices.size === 0) findChoice(0, 0);
    endPart();
    for (const { choice, has_finished, calls } of choices.values()) {
      if (!has_finished)
        add(choice, { type: "finish", reason: calls.length > 0 ? "tool_calls" : "stop", stop_sequence: null });
    }
    if (events.length > 0) parts.push({ events });
    events = [];
  }

  /** The chunk as the provider wrote it, with our name of the model. */
  function named(chunk: Fields, data: string): string {
    if (data.includes("\n")) return rewritten(chunk);
    if (chunk.model === undefined || chunk.model === model.id) return data;
    const theirs = `"model":${JSON.stringify(chunk.model)}`;
    const at = data.indexOf(theirs);
    return at === -1 ? rewritten(chunk) : data.slice(0, at) + our_model + data.slice(at + theirs.length);
  }

  function rewritten(chunk: Fields): string {
    if ("model" in chunk) chunk.model = model.id;
    return JSON.stringify(chunk);
  }

  function endPart(): void {
    if (events.length > 0 || text !== "") parts.push({ events, chat_text: text });
    events = [];
    text = "";
  }

  function taken(): AnswerPart[] {
    // Comments do not begin an answer. They are sent with the first chunk.
    if (has_begun) endPart();
    const found = parts;
    parts = [];
    if (found.length === 0) source.throwFault();
    return found;
  }

  return {
    push(sent) {
      if (!has_begun && head.length < MAX_EARLY_CHARACTERS) head += sent;
      source.feed(sent);
      return taken();
    },
    close() {
      is_closing = true;
      source.close(() => {
        // Usage in a chunk with text is a report during the stream, not its end.
        const has_finished = [...choices.values()].some((choice) => choice.has_finished);
        if (has_finished || (closed_bytes !== null && closed_bytes === bytes)) addEnds();
        // Some servers answer in one piece, an error or the whole answer.
        else if (!has_begun && head.trim() !== "" && !EVENT_LINE.test(head)) readWhole();
        else throw brokenProvider(model, "a stream that was cut off");
      });
      return taken();
    },
    isDone: source.isDone,
    counts() {
      const usage = reports.counts();
      if (usage === null) return estimateCounts(request, bytes);
      // Some providers report during the stream. A caller that leaves between two reports also pays for the later text.
      const since = tokensOfBytes(bytes - reported_bytes);
      return since === 0 ? usage : { ...usage, output_tokens: usage.output_tokens + since, estimated: true };
    },
  };
}

/** An event of a choice without its number. */
type ChoiceEvent = WithoutChoice<Extract<AnswerEvent, { choice: number }>>;
type WithoutChoice<Event> = Event extends unknown ? Omit<Event, "choice"> : never;

/** A choice as OpenAI's clients read it, so far as its delta goes. */
function isOrdinary(choice: unknown): boolean {
  return isJsonObject(choice) && isJsonObject(choice.delta) && choice.message === undefined;
}

/** Whether a chunk may have a report of usage. Most have none, or null. */
function mayReport(chunk: Fields): boolean {
  if (chunk.usage != null || chunk.x_groq != null) return true;
  return objectsIn(chunk.choices).some(({ usage }) => usage != null);
}

function isError(chunk: Fields): boolean {
  const { error, object, choices } = chunk;
  return Boolean(error) || object === "error" || (choices == null && errorFields(chunk).message !== "");
}
