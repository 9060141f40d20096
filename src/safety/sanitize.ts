import { fence } from "./fence.ts";
import { type Detection, detect, type Level } from "./judging/detect.ts";
import { normalise } from "./reading/normalise.ts";
import { type ContentKind, evidenceOfHiding, readable } from "./reading/readable.ts";
import type { Hidden } from "./reading/visible.ts";

export type { ContentKind };

export interface SanitizeRequest {
  readonly content: string;
  readonly kind: ContentKind | "json";
  /** `off`: nothing is judged. What no reader sees is left out all the same, and the rest is fenced. */
  readonly level: Level | "off";
  /** The run's mark (fence.ts). */
  readonly mark: string;
  /** Where the content came from: what its relative links are relative to. */
  readonly base_url?: string;
  /** Longest text to hand on, fences apart; the rest is cut and said to be. */
  readonly max_chars?: number;
}

/** Something that was taken out, and why. */
export interface Removal {
  readonly technique: string;
  /** Its beginning, as plain text. For people: it never goes to a model. */
  readonly excerpt: string;
}

export interface Sanitized {
  /** What may go to a model: the text between its fences. */
  readonly text: string;
  readonly verdict: { readonly injected: boolean; readonly score: number };
  readonly removed: readonly Removal[];
  readonly marker: string;
  /** Absolute http(s) addresses of the links that a reader can see. */
  readonly links: readonly string[];
}

/** Tells what is judged: everything, or nothing, to see what holds when detection fails. */
export type Detector = (text: string, level: Level, evidence: number) => Detection;

const NOTHING_JUDGED: Detector = () => ({ passages: [], score: 0 });
const MAX_REMOVED = 50;
const MAX_EXCERPT = 200;
/** Hidden text is judged up to here; all of it is removed either way. */
const MAX_JUDGED = 200_000;
const MIN_JUDGED = 12;
/** Put where a passage was taken out, so that nobody reads two ends as one. */
const GAP = "[passage removed]";

/**
 * The safety layer, whole: a pure function from what came from outside to what a model may read.
 *
 * visible → normalise → detect → fence. Each stage stands in a file of its own and knows nothing of the others.
 * Linear in the content; never throws on any string.
 */
export function sanitize(request: SanitizeRequest, detector: Detector = detect): Sanitized {
  if (request.level === "off") return sanitize({ ...request, level: "balanced" }, NOTHING_JUDGED);
  const { content, kind, level, mark } = request;
  const { text: whole, hidden, links, defused, evidence } = readable(content, kind, request.base_url);
  // Judging costs the most by far: what is not handed on is not judged.
  const clean = whole.slice(0, request.max_chars).toWellFormed();
  const found = detector(clean, level, evidence);
  const judged = judgeHidden(hidden, level, detector);
  const score = Math.max(found.score, judged.score);
  return {
    text: fence(without(clean, found) + cutNotice(whole.length - clean.length), mark),
    verdict: { injected: score >= 0.5, score: Math.round(score * 1000) / 1000 },
    removed: [...instructions(clean, found), ...judged.removed, ...defused].slice(0, MAX_REMOVED),
    marker: mark,
    links: links.map((link) => link.url),
  };
}

function cutNotice(cut_chars: number): string {
  return cut_chars === 0 ? "" : `\n[cut here: ${cut_chars} more characters]`;
}

function without(text: string, { passages }: Detection): string {
  let kept = "";
  let from = 0;
  for (const passage of passages) {
    const before = text.slice(from, passage.start);
    // An exclamation mark would make a picture of the gap, with an address behind it.
    kept += (before.endsWith("!") ? `${before} ` : before) + GAP;
    from = passage.end;
  }
  return kept + text.slice(from);
}

function instructions(text: string, { passages }: Detection): Removal[] {
  return passages.map(({ start, end, cues }) => removal(`instruction: ${cues.join(", ")}`, text.slice(start, end)));
}

/** What nobody sees was removed already; what it says decides whether the page is one that attacks. */
function judgeHidden(
  hidden: readonly Hidden[],
  level: Level,
  detector: Detector,
): { score: number; removed: Removal[] } {
  // Scripts and attributes stand on every page: they are told of only when they instruct.
  let score = 0;
  let budget = MAX_JUDGED;
  const suspicious: Removal[] = [];
  const ordinary: Removal[] = [];
  /** Pages say the same of many of their pictures and links. */
  const scores = new Map<string, number>();
  for (const { technique, text } of hidden) {
    const sample = text.slice(0, budget);
    budget -= sample.length;
    const evidence = evidenceOfHiding(technique);
    const key = `${evidence} ${sample}`;
    const found =
      scores.get(key) ?? (sample.length < MIN_JUDGED ? 0 : detector(normalise(sample).text, level, evidence).score);
    scores.set(key, found);
    score = Math.max(score, found);
    if (found >= 0.5) suspicious.push(removal(technique, text));
    else if (ordinary.length < MAX_REMOVED && !/^(script|attribute-)/.test(technique))
      ordinary.push(removal(technique, text));
  }
  return { score, removed: [...suspicious, ...ordinary] };
}

function removal(technique: string, text: string): Removal {
  const excerpt = normalise(text.slice(0, MAX_EXCERPT * 4))
    .text.replace(/\s+/g, " ")
    .trim();
  return { technique, excerpt: excerpt.slice(0, MAX_EXCERPT).toWellFormed() };
}
