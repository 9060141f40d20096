import { type AskedFor, type AskedPart, partsToAsk } from "./asked-parts.ts";
import { inContext } from "./context.ts";
import { createCueReader } from "./cue-reader.ts";
import { cueFeatures } from "./features.ts";
import { loadModel, logitFromText, logitWithCues, type Model } from "./model.ts";
import type { Piece } from "./pieces.ts";
import { createTally } from "./tally.ts";
import { piecesOf, type Window, windowsOf } from "./windows.ts";

/** Offset of the threshold per level, in logits. `strict` needs less evidence (docs/guides/safety.md). */
const LEVELS = { strict: -0.8, balanced: 0 } as const;
/** Cues are searched only above this score, because cues alone never lift a window from below it to the threshold. */
const CUE_GATE = -3;
/** A passage up to this far above the threshold, in logits, is doubtful: it is marked instead of removed. */
const DOUBT = 0.5;
/** The most evidence about the whole page that counts for a passage. Without this limit it would count for all of them. */
const EVIDENCE_FOR_PASSAGE = 1.5;
/** The lowest score of a window. */
const LOWEST = -50;
/** Context cannot lift a window that is this far below the threshold. */
const REACH = 3;
/** A sentence with a lower score of its own is not part of an order. */
const INNOCENT = -1.5;
/** A paragraph up to this length is removed whole, because an order and its pretext belong together. */
const WHOLE_PARAGRAPH = 700;
/** A judge of doubtful text is asked about windows down to this far below the threshold, in logits. */
const DOUBT_BELOW = 1;

export type Level = keyof typeof LEVELS;

export interface Passage {
  readonly start: number;
  readonly end: number;
  /** The names of the cues that matched. May be empty when the words alone gave the score. */
  readonly cues: readonly string[];
  /** A doubtful passage stays, with a warning. Others are removed. */
  readonly is_doubtful: boolean;
}

export interface Detection {
  /** The passages to remove or to mark, in order and without overlap. Empty if the score is below 0.5. */
  readonly passages: readonly Passage[];
  /** 0 to 1. From 0.5 the text counts as an instruction to a model. */
  readonly score: number;
  /** The parts for judges, as they were wanted. No part has a passage that is removed. */
  readonly for_judges?: Partial<Record<AskedFor, readonly AskedPart[]>>;
}

const NO_CUES: readonly string[] = [];

/** Loaded with the first text, so that a process that judges no text does not load it. */
let shipped: Model | undefined;

/**
 * Finds passages that instruct a model. Linear in the text; `text` is the output of normalise.ts.
 * @param evidence evidence of an attack besides the words, in logits; for example that the text was hidden
 * @param wanted which parts to return for judges
 */
export function detect(text: string, level: Level, evidence = 0, wanted: readonly AskedFor[] = []): Detection {
  shipped ??= loadModel();
  return detectWith(shipped, text, level, evidence, wanted);
}

/** Like `detect`, with another model (training/). */
export function detectWith(
  model: Model,
  text: string,
  level: Level,
  evidence: number,
  wanted: readonly AskedFor[] = [],
): Detection {
  const pieces = piecesOf(text);
  const judge = createJudge(model, pieces);
  const windows = windowsOf(pieces).map((window) => {
    const { logit, cues } = judge(window);
    return { first: window.first, last: window.last, logit, cues };
  });
  const { allowance, extras } = inContext(pieces, windows, model.threshold - REACH);
  const asked = model.threshold + LEVELS[level] + allowance;
  const flagging = asked - evidence;
  const strongest = windows.reduce((most, { logit }, at) => Math.max(most, logit + (extras[at] ?? 0)), LOWEST);
  const found: Passage[] = [];
  const threshold = asked - Math.min(evidence, EVIDENCE_FOR_PASSAGE);
  // At least the strongest passage of a flagged page is touched.
  const touching = Math.min(threshold, strongest);
  const removing = touching + Math.max(0, DOUBT - evidence);
  windows.forEach((window, at) => {
    const extra = extras[at] ?? 0;
    if (strongest < flagging || window.logit + extra < touching) return;
    const core = trimmed(window, touching - extra, judge);
    const is_doubtful = window.logit + extra < removing;
    const { start, end } = is_doubtful ? alone(text, pieces, core) : widened(text, pieces, core);
    found.push({ start, end, cues: window.cues, is_doubtful });
  });
  const score = 1 / (1 + Math.exp(Math.min(50, flagging - strongest)));
  const passages = merged(found);
  if (wanted.length === 0) return { passages, score };
  const removed = passages.filter(({ is_doubtful }) => !is_doubtful);
  const isRemoved = ({ start, end }: Piece) => removed.some((each) => each.start < end && start < each.end);
  const strong = windows.map((window, at) => ({ ...window, strength: window.logit + (extras[at] ?? 0) }));
  const least = threshold - DOUBT_BELOW;
  // A window around a removed passage is doubtful because of that passage.
  const doubtful = strong
    .filter(({ strength, first, last }) => strength >= least && !pieces.slice(first, last + 1).some(isRemoved))
    .map(({ strength, ...window }) => ({ ...trimmed(window, least - strength + window.logit, judge), strength }));
  const covering = { doubtful, always: strong };
  const for_judges = wanted.map((each) => [each, partsToAsk(text, pieces, covering[each], removed)]);
  return { passages, score, for_judges: Object.fromEntries(for_judges) };
}

interface Judgement {
  readonly logit: number;
  readonly cues: readonly string[];
}

function createJudge(model: Model, pieces: readonly Piece[]): (window: Window) => Judgement {
  const weigh = createTally(model, pieces);
  const cuesIn = createCueReader(pieces);
  return (window) => {
    const { sum, count } = weigh(window);
    const logit = logitFromText(model, sum, count);
    if (logit < CUE_GATE) return { logit, cues: NO_CUES };
    const cues = cuesIn(window);
    return { logit: logitWithCues(model, logit, cueFeatures(cues)), cues };
  };
}

/** Drops innocent pieces at both ends while the rest stays above the threshold. */
function trimmed(window: Window, threshold: number, judge: (window: Window) => Judgement): Window {
  let { first, last } = window;
  const isInnocent = (at: number) => judge({ first: at, last: at }).logit < INNOCENT;
  const isEnough = (from: number, to: number) => judge({ first: from, last: to }).logit >= threshold;
  while (first < last && isInnocent(first) && isEnough(first + 1, last)) first++;
  while (first < last && isInnocent(last) && isEnough(first, last - 1)) last--;
  return { first, last };
}

type Range = Pick<Passage, "start" | "end">;

/** The window's range in the text, not widened, because a doubtful passage may be honest. */
function alone(text: string, pieces: readonly Piece[], { first, last }: Window): Range {
  const start = pieces[first]?.start ?? 0;
  return { start, end: start + text.slice(start, pieces[last]?.end).trimEnd().length };
}

/** The window's range in the text, widened to whole paragraphs if they are short. */
function widened(text: string, pieces: readonly Piece[], { first, last }: Window): Range {
  const from = pieces[first]?.start ?? 0;
  const to = pieces[last]?.end ?? text.length;
  // Search only this far, because a page may be a single line.
  const reach = text.slice(Math.max(0, from - WHOLE_PARAGRAPH), from);
  const paragraph_start = from - reach.length + reach.lastIndexOf("\n") + 1;
  const newline = text.slice(to - 1, to + WHOLE_PARAGRAPH).indexOf("\n");
  const paragraph_end = newline < 0 ? Math.min(text.length, to + WHOLE_PARAGRAPH) : to - 1 + newline;
  const before = from - paragraph_start <= WHOLE_PARAGRAPH / 2 ? paragraph_start : from;
  const isShort = newline >= 0 || paragraph_end === text.length;
  const stop = isShort ? Math.max(paragraph_end, to) : to;
  return { start: before, end: before + text.slice(before, stop).trimEnd().length };
}

/** The passages in order. Those that touch are one, which is doubtful if all of them are. */
export function merged(passages: readonly Passage[]): Passage[] {
  const result: Passage[] = [];
  for (const passage of passages.toSorted((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last === undefined || passage.start > last.end) result.push(passage);
    else {
      const cues = [...new Set([...last.cues, ...passage.cues])];
      const is_doubtful = last.is_doubtful && passage.is_doubtful;
      result[result.length - 1] = { start: last.start, end: Math.max(last.end, passage.end), cues, is_doubtful };
    }
  }
  return result;
}
