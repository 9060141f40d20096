import type { ChatRequest } from "../../api/contract/completions.ts";
import { isJsonObject } from "../../platform/lib/json.ts";
import { objectsIn } from "./chat-shape.ts";
import { BESIDE_INPUT, field, USAGE_NAMES, USAGE_PLACES } from "./dialects.ts";
import type { Counts, Model } from "./models.types.ts";
import { tokensOfBytes } from "./token-count.ts";

/** Reads the usage that providers report. A provider's mistake must not move money. */

/** A report of more than this many times what a call can use is a fault of its provider. */
const BELIEVED_FACTOR = 2;

/** The figures of one or several reports; each is a whole number of 0 or more. */
type Figures = Partial<Record<keyof typeof USAGE_NAMES, number>>;

/**
 * Collects the reports of one OpenAI-compatible answer: of its chunks, or of the whole answer. Some servers send parts
 * of a report in several chunks, so the last figure above 0 of each kind counts.
 */
export function createUsageReports(call: ReportedCall, onDisbelieved?: (report: Counts) => void) {
  let of_answer: Figures = {};
  let of_choices = new Map<unknown, Figures>();
  let counts: Counts | null = null;

  return {
    /**
     * Takes the reports in an answer or a chunk, and removes them from it. `receivedBytes`: of the answer's text until
     * then. Returns whether there was one.
     */
    take(answer: Record<string, unknown>, receivedBytes: () => number): boolean {
      const found = USAGE_PLACES.flatMap((path) => readFigures(taken(answer, path)) ?? []);
      const found_in_choices = objectsIn(answer.choices).flatMap((choice, at) => {
        const figures = readFigures(taken(choice, "usage"));
        return figures === null ? [] : [[choice.index ?? at, figures] as const];
      });
      if (found.length === 0 && found_in_choices.length === 0) return false;
      const next = found.reduce(merged, of_answer);
      const next_of_choices = new Map(of_choices);
      for (const [index, figures] of found_in_choices) {
        next_of_choices.set(index, merged(of_choices.get(index) ?? {}, figures));
      }
      const report =
        countsOfFigures(next) ??
        countsOfFigures(sumOfChoices([...next_of_choices.values()])) ??
        countsOfTotal(next, receivedBytes);
      if (report !== null && acceptReport(report, call, { receivedBytes, onDisbelieved }) === null) return true;
      of_answer = next;
      of_choices = next_of_choices;
      counts = report ?? counts;
      return true;
    },
    /** From the last usable report; null: there was none. */
    counts: () => counts,
  };
}

/** Removes the field at a path and returns its value. */
function taken(answer: Record<string, unknown>, path: string): unknown {
  const names = path.split(".");
  const last = names.pop() as string;
  const parent = names.length === 0 ? answer : field(answer, names.join("."));
  if (!isJsonObject(parent)) return undefined;
  const { [last]: value } = parent;
  delete parent[last];
  return value;
}

/** The valid figures in a usage object; null: it is none. */
function readFigures(usage: unknown): Figures | null {
  if (typeof usage !== "object" || usage === null) return null;
  const figures: Figures = {};
  for (const [name, paths] of Object.entries(USAGE_NAMES)) {
    const valid = paths.map((path) => countIn(field(usage, path))).filter(isCount);
    const figure = valid.find((value) => value > 0) ?? valid[0];
    if (figure !== undefined) figures[name as keyof Figures] = figure;
  }
  const { input } = figures;
  const beside = BESIDE_INPUT.map((name) => countIn(field(usage, name))).filter(isCount);
  const is_within = isCount(countIn(field(usage, "prompt_tokens")));
  if (input !== undefined && !is_within) figures.input = beside.reduce((sum, count) => sum + count, input);
  return figures;
}

/** Some servers write their figures as texts. */
function countIn(value: unknown): unknown {
  return typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
}

function merged(before: Figures, figures: Figures): Figures {
  const above_0 = Object.entries(figures).filter(([, value]) => value > 0);
  return { ...figures, ...before, ...Object.fromEntries(above_0) };
}

/** Each choice has the same input. */
function sumOfChoices(all: readonly Figures[]): Figures {
  const outputs = all.map((figures) => computeOutput(figures));
  const sum = (values: (number | undefined)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
  if (all.length === 0 || outputs.includes(undefined)) return {};
  return { ...all[0], total: 0, output: sum(outputs), reasoning: sum(all.map(computeReasoning)) };
}

/** The output with thoughts that only the total has. */
function computeOutput({ input, output, total = 0 }: Figures): number | undefined {
  if (input === undefined) return output;
  return output === undefined && total === 0 ? undefined : Math.max(output ?? 0, total - input);
}

function computeReasoning(figures: Figures): number {
  const beside = figures.output === undefined ? 0 : (computeOutput(figures) ?? 0) - figures.output;
  return Math.max(figures.reasoning ?? 0, beside);
}

function countsOfFigures(figures: Figures): Counts | null {
  return checkedCounts({
    input_tokens: figures.input,
    cached_input_tokens: figures.cached ?? 0,
    cache_write_tokens: figures.written ?? 0,
    cache_write_1h_tokens: figures.written_1h ?? 0,
    output_tokens: computeOutput(figures),
    reasoning_tokens: computeReasoning(figures),
  });
}

/** The counts of a report with nothing but a total, whose output is estimated from the text. */
function countsOfTotal({ input, output, total = 0 }: Figures, receivedBytes: () => number): Counts | null {
  if (input !== undefined || output !== undefined || total === 0) return null;
  const written = Math.min(total, tokensOfBytes(receivedBytes()));
  const counts = countsOfFigures({ input: total - written, output: written });
  return counts === null ? null : { ...counts, estimated: true };
}

/** OpenAI's usage object as counts, or null if it is missing or invalid: negative, fractional or all zero. */
export function countsOfUsage(usage: unknown): Counts | null {
  return countsOfFigures(readFigures(usage) ?? {});
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The call that a report is about. `ProviderRequest` has these fields. */
export interface ReportedCall {
  model: Pick<Model, "context_window" | "max_output_tokens">;
  request: Pick<ChatRequest, "n">;
  /** The hold for the input. */
  input_tokens: number;
}

/**
 * Whether a call can have used what its provider reports: at most twice the input that the model reads or the hold has,
 * and twice the output that the model writes in all choices or a token for each byte that was received. Reasoning is
 * not received, and some providers do not count it against the cap, so the context window bounds it.
 */
export function isBelievable(
  { input_tokens, output_tokens, reasoning_tokens }: Counts,
  { model, request, input_tokens: held_tokens }: ReportedCall,
  receivedBytes: () => number,
): boolean {
  const choices = request.n ?? 1;
  const written_tokens = output_tokens - Math.min(reasoning_tokens, choices * model.context_window);
  if (input_tokens > BELIEVED_FACTOR * Math.max(model.context_window, held_tokens)) return false;
  if (written_tokens <= BELIEVED_FACTOR * choices * model.max_output_tokens) return true;
  return written_tokens <= receivedBytes();
}

/** The report if it is believed, otherwise null. `receivedBytes`: of the answer's text until then. */
export function acceptReport(
  report: Counts | null,
  call: ReportedCall,
  given: { receivedBytes: () => number; onDisbelieved?: ((report: Counts) => void) | undefined },
): Counts | null {
  if (report === null || isBelievable(report, call, given.receivedBytes)) return report;
  given.onDisbelieved?.(report);
  return null;
}

/**
 * The counts that a provider reported, or null unless input and output are whole numbers and not both 0. A part that is
 * invalid counts as 0, and a part is at most what the parts before it leave of the whole. `acceptReport` judges the result.
 */
export function checkedCounts(
  reported: Record<keyof Omit<Counts, "estimated" | "call_input_tokens">, unknown>,
): Counts | null {
  const { input_tokens, output_tokens } = reported;
  if (!isCount(input_tokens) || !isCount(output_tokens)) return null;
  // Servers that do not count report 0 and 0, but every prompt has at least one token.
  if (input_tokens + output_tokens === 0) return null;
  const toPart = (whole: number, part: unknown) => (isCount(part) ? Math.min(part, whole) : 0);
  const cached_input_tokens = toPart(input_tokens, reported.cached_input_tokens);
  const cache_write_tokens = toPart(input_tokens - cached_input_tokens, reported.cache_write_tokens);
  return {
    input_tokens,
    cached_input_tokens,
    cache_write_tokens,
    cache_write_1h_tokens: toPart(cache_write_tokens, reported.cache_write_1h_tokens),
    output_tokens,
    reasoning_tokens: toPart(output_tokens, reported.reasoning_tokens),
    estimated: false,
  };
}
