import { CUES, DISCUSSION } from "./cues.ts";
import { decodedRuns, fold } from "./fold.ts";

/** Cues count together when they stand this close, in folded characters. */
const WINDOW = 300;
/** Sum of cue weights from which a passage is taken for an instruction. */
const THRESHOLD = { strict: 4, balanced: 5 } as const;
/** A text that talks about attacks quotes them: it takes more to flag a passage of it. */
const DISCUSSION_FACTOR = 1.6;
const DISCUSSION_KINDS = 4;
/** A paragraph up to this long goes as a whole: an order and its pretext belong together. */
const WHOLE_PARAGRAPH = 700;
/** Sentences are cut at this length at the latest. */
const MAX_PIECE = 400;

export type Level = keyof typeof THRESHOLD;

interface Passage {
  readonly start: number;
  readonly end: number;
  /** Names of the cues that spoke. */
  readonly cues: readonly string[];
}

export interface Detection {
  /** What to take out, in order, not overlapping. */
  readonly passages: readonly Passage[];
  /** 0 to 1; from 0.5 up the text is taken to carry an instruction. */
  readonly score: number;
}

interface Piece {
  readonly start: number;
  readonly end: number;
  readonly folded_start: number;
}

interface Hit {
  readonly cue: string;
  readonly weight: number;
  readonly start: number;
  readonly end: number;
}

/** Finds passages that instruct a model. Linear in the text; `text` is in the output view (normalise.ts). */
export function detect(text: string, level: Level): Detection {
  const { folded, pieces } = detectionView(text);
  const threshold = THRESHOLD[level] * (discussesAttacks(folded) ? DISCUSSION_FACTOR : 1);
  const { clusters, strongest } = clustersOf(hitsIn(folded), threshold);
  const passages = clusters.map((cluster) => passageOf(text, pieces, cluster));
  return { passages: merged(passages), score: 1 - 2 ** (-strongest / threshold) };
}

/** The text folded piece by piece (sentences and lines), so that a hit leads back to where it stands. */
function detectionView(text: string): { folded: string; pieces: Piece[] } {
  const pieces: Piece[] = [];
  let folded = "";
  for (const { start, end } of sentences(text)) {
    const source = text.slice(start, end);
    pieces.push({ start, end, folded_start: folded.length });
    folded += `${[fold(source), ...decodedRuns(source).map(fold)].join(" ").trim()}\n`;
  }
  return { folded, pieces };
}

function* sentences(text: string): Generator<{ start: number; end: number }> {
  // Of several full stops only the last can match, so that a row of them is read once.
  const boundary = /\n+|[.!?。！？]["')\]]*\s+/g;
  let start = 0;
  for (;;) {
    const found = boundary.exec(text);
    const end = found === null ? text.length : boundary.lastIndex;
    for (; end - start > MAX_PIECE; start += MAX_PIECE) yield { start, end: start + MAX_PIECE };
    if (end > start) yield { start, end };
    if (found === null) return;
    start = end;
  }
}

function discussesAttacks(folded: string): boolean {
  return new Set(folded.match(DISCUSSION)).size >= DISCUSSION_KINDS;
}

function hitsIn(folded: string): Hit[] {
  const hits: Hit[] = [];
  for (const { name, weight, pattern } of CUES) {
    for (const match of folded.matchAll(pattern)) {
      hits.push({ cue: name, weight, start: match.index, end: match.index + match[0].length });
    }
  }
  return hits.sort((a, b) => a.start - b.start);
}

interface Cluster {
  readonly start: number;
  end: number;
  readonly cues: Set<string>;
}

/** Slides the window over the hits; each kind of cue counts once in a window. */
function clustersOf(hits: readonly Hit[], threshold: number): { clusters: Cluster[]; strongest: number } {
  const clusters: Cluster[] = [];
  const inWindow = new Map<string, number>();
  let sum = 0;
  let first = 0;
  let strongest = 0;
  for (const hit of hits) {
    for (; hit.start - (hits[first]?.start ?? 0) > WINDOW; first++) sum -= leave(inWindow, hits[first]);
    sum += enter(inWindow, hit);
    strongest = Math.max(strongest, sum);
    if (sum < threshold) continue;
    const start = hits[first]?.start ?? hit.start;
    const last = clusters.at(-1);
    if (last === undefined || start > last.end) clusters.push({ start, end: hit.end, cues: new Set(inWindow.keys()) });
    else {
      last.end = Math.max(last.end, hit.end);
      last.cues.add(hit.cue);
    }
  }
  return { clusters, strongest };
}

function enter(inWindow: Map<string, number>, hit: Hit): number {
  const count = inWindow.get(hit.cue) ?? 0;
  inWindow.set(hit.cue, count + 1);
  return count === 0 ? hit.weight : 0;
}

function leave(inWindow: Map<string, number>, hit: Hit | undefined): number {
  if (hit === undefined) return 0;
  const count = inWindow.get(hit.cue) ?? 0;
  if (count > 1) inWindow.set(hit.cue, count - 1);
  else inWindow.delete(hit.cue);
  return count === 1 ? hit.weight : 0;
}

/** From folded positions back to the text, widened to whole paragraphs where these are short. */
function passageOf(text: string, pieces: readonly Piece[], { start, end, cues }: Cluster): Passage {
  const from = pieceAt(pieces, start)?.start ?? 0;
  const to = pieceAt(pieces, Math.max(start, end - 1))?.end ?? text.length;
  // Looked for within reach only: a page may be one line.
  const reach = text.slice(Math.max(0, from - WHOLE_PARAGRAPH), from);
  const paragraph_start = from - reach.length + reach.lastIndexOf("\n") + 1;
  const newline = text.slice(to - 1, to + WHOLE_PARAGRAPH).indexOf("\n");
  const paragraph_end = newline < 0 ? Math.min(text.length, to + WHOLE_PARAGRAPH) : to - 1 + newline;
  const before = from - paragraph_start <= WHOLE_PARAGRAPH / 2 ? paragraph_start : from;
  const isShort = newline >= 0 || paragraph_end === text.length;
  const stop = isShort ? Math.max(paragraph_end, to) : to;
  return { start: before, end: before + text.slice(before, stop).trimEnd().length, cues: [...cues] };
}

function pieceAt(pieces: readonly Piece[], position: number): Piece | undefined {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((pieces[middle]?.folded_start ?? 0) <= position) low = middle;
    else high = middle - 1;
  }
  return pieces[low];
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
