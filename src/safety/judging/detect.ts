import { inContext } from "./context.ts";
import { createCueReader } from "./cue-reader.ts";
import { cueFeatures } from "./features.ts";
import { loadModel, logitFromText, logitWithCues, type Model } from "./model.ts";
import type { Piece } from "./pieces.ts";
import { createTally } from "./tally.ts";
import { piecesOf, type Window, windowsOf } from "./windows.ts";

/** How far the threshold lies from the model's own: strict takes less evidence. */
const LEVELS = { strict: -1, balanced: 0 } as const;
/** Cues are looked for only where the words leave a chance: by themselves they never lift a window from below this. */
const CUE_GATE = -3;
/** A passage is taken out at less evidence than it takes to call the whole page an attack: it costs a reader less. */
const REMOVAL_MARGIN = 1.15;
/** How a whole page is written speaks against each of its passages only so much; else all of it would go. */
const EVIDENCE_TO_REMOVE = 1.5;
/** No window is judged to be below this. */
const LOWEST = -50;
/** Windows this far below the threshold are beyond the reach of what context can add. */
const REACH = 3;
/** A sentence that has less than this by itself is no part of an order. */
const INNOCENT = -1.5;
/** A paragraph up to this long goes as a whole: an order and its pretext belong together. */
const WHOLE_PARAGRAPH = 700;

export type Level = keyof typeof LEVELS;

interface Passage {
  readonly start: number;
  readonly end: number;
  /** Names of the cues that spoke; may be none, when the words alone told. */
  readonly cues: readonly string[];
}

export interface Detection {
  /** What to take out, in order, not overlapping. */
  readonly passages: readonly Passage[];
  /** 0 to 1; from 0.5 up the text is taken to carry an instruction. */
  readonly score: number;
}

const NO_CUES: readonly string[] = [];

/** Read when the first text is judged: who reads no pages has no need of it. */
let shipped: Model | undefined;

/**
 * Finds passages that instruct a model. Linear in the text; `text` is in the output view (normalise.ts).
 * @param evidence what speaks for an attack besides the words, in the model's logits: that the text was hidden, say.
 */
export function detect(text: string, level: Level, evidence = 0): Detection {
  shipped ??= loadModel();
  return detectWith(shipped, text, level, evidence);
}

/** As `detect`, by a model of one's own (training/). */
export function detectWith(model: Model, text: string, level: Level, evidence: number): Detection {
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
  // A page that is flagged loses its strongest passage at least.
  const doubtful = asked - Math.min(evidence, EVIDENCE_TO_REMOVE) - REMOVAL_MARGIN;
  const removing = strongest >= flagging ? Math.min(doubtful, strongest) : doubtful;
  const passages: Passage[] = [];
  windows.forEach((window, at) => {
    const extra = extras[at] ?? 0;
    if (window.logit + extra < removing) return;
    const core = trimmed(window, removing - extra, judge);
    const isCertain = window.logit + extra >= flagging;
    passages.push(isCertain ? widened(text, pieces, core, window.cues) : alone(text, pieces, core, window.cues));
  });
  const score = 1 / (1 + Math.exp(Math.min(50, flagging - strongest)));
  return { passages: merged(passages), score };
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

/** Leaves out innocent pieces at either end, as long as the rest is still over the threshold. */
function trimmed(window: Window, threshold: number, judge: (window: Window) => Judgement): Window {
  let { first, last } = window;
  const isInnocent = (at: number) => judge({ first: at, last: at }).logit < INNOCENT;
  const isEnough = (from: number, to: number) => judge({ first: from, last: to }).logit >= threshold;
  while (first < last && isInnocent(first) && isEnough(first + 1, last)) first++;
  while (first < last && isInnocent(last) && isEnough(first, last - 1)) last--;
  return { first, last };
}

/** The window's place in the text, and no more: what is only doubtful may be honest. */
function alone(text: string, pieces: readonly Piece[], { first, last }: Window, cues: readonly string[]): Passage {
  const start = pieces[first]?.start ?? 0;
  return { start, end: start + text.slice(start, pieces[last]?.end).trimEnd().length, cues };
}

/** The window's place in the text, widened to whole paragraphs where these are short. */
function widened(text: string, pieces: readonly Piece[], { first, last }: Window, cues: readonly string[]): Passage {
  const from = pieces[first]?.start ?? 0;
  const to = pieces[last]?.end ?? text.length;
  // Looked for within reach only: a page may be one line.
  const reach = text.slice(Math.max(0, from - WHOLE_PARAGRAPH), from);
  const paragraph_start = from - reach.length + reach.lastIndexOf("\n") + 1;
  const newline = text.slice(to - 1, to + WHOLE_PARAGRAPH).indexOf("\n");
  const paragraph_end = newline < 0 ? Math.min(text.length, to + WHOLE_PARAGRAPH) : to - 1 + newline;
  const before = from - paragraph_start <= WHOLE_PARAGRAPH / 2 ? paragraph_start : from;
  const isShort = newline >= 0 || paragraph_end === text.length;
  const stop = isShort ? Math.max(paragraph_end, to) : to;
  return { start: before, end: before + text.slice(before, stop).trimEnd().length, cues };
}

function merged(passages: readonly Passage[]): Passage[] {
  const result: Passage[] = [];
  for (const passage of passages.toSorted((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last === undefined || passage.start > last.end) result.push(passage);
    else {
      const cues = [...new Set([...last.cues, ...passage.cues])];
      result[result.length - 1] = { start: last.start, end: Math.max(last.end, passage.end), cues };
    }
  }
  return result;
}
