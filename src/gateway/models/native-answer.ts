import type { ExtraContent, ReasoningDetail, ReasoningFormat } from "../../api/contract/completions.ts";
import { newId } from "../../platform/lib/ids.ts";
import { type AnswerEvent, type CallEvent, generatedBytes, newIdentity } from "./answer-events.ts";
import { type Ending, finishReasonOfEnding, toEnding } from "./dialects.ts";
import type { CallOptions, Counts, ProviderRequest } from "./models.types.ts";
import { estimateCounts } from "./token-count.ts";
import { acceptReport } from "./usage-report.ts";

/** A piece of reasoning as a dialect reads it. */
export type DetailPiece = Pick<ReasoningDetail, "type" | "text" | "summary" | "signature" | "data" | "id">;

/** The answer of a provider's own API, as its reader finds it: what is read becomes events. */
export type NativeAnswer = ReturnType<typeof createNativeAnswer>;

/** An empty answer to `request`. */
export function createNativeAnswer(
  request: ProviderRequest,
  { format }: { format: ReasoningFormat | null },
  onDisbelieved: CallOptions["onDisbelieved"],
) {
  const { model } = request;
  const custom_tools = new Set(
    (request.request.tools ?? []).flatMap((tool) => (tool.type === "custom" ? tool.custom.name : [])),
  );
  const maker = { model: model.id, ...(model.route === null ? {} : { route: model.route }) };
  const calls = new Map<unknown, Pick<CallEvent, "at" | "tool">>();
  let events: AnswerEvent[] = [];
  let has_started = false;
  let has_refusal = false;
  let blocks = 0;
  /** Of the generated text. */
  let bytes = 0;
  let ending: Ending | null = null;
  let stop_sequence: string | null = null;
  /** The last believed report, and whether it is the one of a whole answer. */
  let reported: Counts | null = null;
  let is_whole = false;

  function add(event: AnswerEvent): void {
    start();
    events.push(event);
    bytes += generatedBytes([event]);
  }

  function start(): void {
    if (has_started) return;
    has_started = true;
    events.push({ type: "start", ...newIdentity(), model: model.id });
  }

  return {
    request,
    /** The provider has begun to answer. */
    start,
    /** A text, a block of reasoning or a call begins. Returns its place among them. */
    block(): number {
      blocks += 1;
      return blocks - 1;
    },
    text(text: string): void {
      if (text !== "") add({ type: "text", choice: 0, text });
    },
    refusal(text: string): void {
      has_refusal = true;
      if (text !== "") add({ type: "refusal", choice: 0, text });
    },
    reasoning(text: string): void {
      if (text !== "") add({ type: "reasoning", choice: 0, text });
    },
    /** A block of reasoning that is whole. `index`: its place. */
    details(pieces: readonly DetailPiece[], index: number): void {
      const details = pieces
        .filter(({ text, summary, data, signature }) => Boolean(text || summary || data || signature))
        .map((piece) => ({ ...piece, format, index, ...maker }));
      if (details.length > 0) add({ type: "reasoning_details", choice: 0, details });
    },
    /** A call begins. `key`: the provider's name for it. `signature`: Gemini's. */
    call(
      key: unknown,
      { id, name, text, signature }: { id: string; name: string; text: string; signature?: unknown },
    ): void {
      const call = { at: calls.size, tool: custom_tools.has(name) ? ("custom" as const) : ("function" as const) };
      calls.set(key, call);
      blocks += 1;
      const signed: { extra_content?: ExtraContent } =
        typeof signature === "string" ? { extra_content: { google: { thought_signature: signature, ...maker } } } : {};
      add({
        type: "call",
        choice: 0,
        at: call.at,
        tool: call.tool,
        id: id || `call_${newId()}`,
        name,
        text,
        ...signed,
      });
    },
    arguments(key: unknown, text: string): void {
      const call = calls.get(key);
      if (call !== undefined && text !== "") add({ type: "arguments", choice: 0, at: call.at, tool: call.tool, text });
    },
    isCustom: (name: string) => custom_tools.has(name),
    hasCall: () => calls.size > 0,
    hasRefusal: () => has_refusal,
    /** How the answer ended, in the provider's word; null: it did not say. */
    finish(reason: unknown, sequence: unknown = null): void {
      ending = toEnding(reason);
      if (typeof sequence === "string") stop_sequence = sequence;
    },
    /** The provider's counts so far, or of the whole answer. */
    report(counts: Counts | null, whole: boolean): void {
      const report = acceptReport(counts, request, { receivedBytes: () => bytes, onDisbelieved });
      if (report === null) {
        is_whole = false;
        return;
      }
      reported = report;
      is_whole = whole;
    },
    /** The events since the last call. */
    taken(): AnswerEvent[] {
      const found = events;
      events = [];
      return found;
    },
    /** The finish of an answer that has come to its end. Null: it was cut off. */
    ending: () => ending,
    end(): void {
      add({ type: "finish", choice: 0, reason: finishReasonOfEnding(ending), stop_sequence });
    },
    counts(): Counts {
      const estimated = estimateCounts(request, bytes);
      if (reported === null) return estimated;
      if (is_whole) return reported;
      // Before any output that the caller can see, a failure costs nothing. Afterwards hidden thoughts are billed too.
      const output = estimated.output_tokens === 0 ? estimated : reported;
      const output_tokens = Math.max(estimated.output_tokens, output.output_tokens);
      return { ...reported, output_tokens, reasoning_tokens: output.reasoning_tokens, estimated: true };
    },
  };
}
