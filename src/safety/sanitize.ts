import { MAX_REMOVED } from "../kernel/constants.ts";
import { fence, type Part } from "./fence.ts";
import type { JudgeReport, Opinion } from "./judges.ts";
import type { AskedFor } from "./judging/asked-parts.ts";
import { type Detection, detect, type Level, merged, type Passage } from "./judging/detect.ts";
import { normalise } from "./reading/normalise.ts";
import type { PdfText } from "./reading/pdf-text.ts";
import { type ContentKind, EVIDENCE, evidenceOfHiding, type Readable, readable } from "./reading/readable.ts";
import type { Hidden } from "./reading/visible.ts";

export type { ContentKind };

export interface SanitizeRequest {
  readonly content: string;
  readonly kind: ContentKind;
  /** `off` skips detection. Hidden text is still removed and the rest is still fenced. */
  readonly level: Level | "off";
  /** The run's mark (fence.ts). */
  readonly mark: string;
  /** The address of the content; relative links are resolved against it. */
  readonly base_url?: string;
  /** What is known of the PDF whose text the content is. */
  readonly pdf?: Pick<PdfText, "hidden" | "is_scan">;
  /** The longest text to return, without fences. The rest is cut, and a line says so. */
  readonly max_chars?: number;
  /** Returns the list of the links from this one on, instead of the text. */
  readonly links_from?: number | undefined;
  /** Which parts of the text judges will be asked about. */
  readonly for_judges?: readonly AskedFor[];
}

/** Something that was removed, and how it was hidden or why. */
export interface Removal {
  readonly technique: string;
  /** Its beginning as plain text, for people. It never goes to a model. */
  readonly excerpt: string;
}

export interface Sanitized {
  /** The fenced text that a model may read. */
  readonly text: string;
  readonly verdict: {
    /** A passage was removed or marked, or hidden text instructed. */
    readonly injected: boolean;
    /** A doubtful passage stays in the text, between warnings. */
    readonly suspicious: boolean;
    readonly score: number;
  };
  readonly removed: readonly Removal[];
  /** The doubtful passages. */
  readonly marked: readonly Removal[];
  readonly marker: string;
  /** Absolute http(s) addresses of the visible links. */
  readonly links: readonly string[];
  /** What the operator's judges did, if any was asked. */
  readonly judges?: readonly JudgeReport[];
  /** How many more links there are than the text shows, and the number of the first one. Absent: there are none. */
  readonly unlisted?: Readable["unlisted"];
}

/** The detector to use. Tests replace it with one that finds nothing, to check the other defences. */
export type Detector = (text: string, level: Level, evidence: number, wanted?: readonly AskedFor[]) => Detection;

/** The content after all stages but the last, as plain data. */
export interface Examined extends Pick<Sanitized, "links" | "unlisted" | "marker"> {
  /** The visible text. */
  readonly clean: string;
  readonly found: Detection;
  /** What is removed besides passages, and the score of the hidden text. */
  readonly hidden: { readonly score: number; readonly removed: readonly Removal[] };
  readonly cut_chars: number;
}

const NO_OPINION: Opinion = { passages: [], score: 0, reports: [] };
const NOTHING_JUDGED: Detector = () => ({ passages: [], score: 0 });
const MAX_EXCERPT = 200;
/** The most hidden characters that are judged. All hidden text is removed. */
const MAX_JUDGED = 200_000;
const MIN_JUDGED = 12;
/** Replaces a removed passage, so that the text before and after it does not join. */
const GAP = "[passage removed]";

/**
 * The whole safety layer, as a pure function from outside content to text that a model may read.
 *
 * visible → normalise → detect → fence. Each stage has its own files and is independent of the others. Linear in the
 * content; never throws on any string.
 */
export function sanitize(request: SanitizeRequest, detector: Detector = detect): Sanitized {
  return present(examine(request, detector));
}

/** All stages but the fence. Judges may be asked about the result before `present`. */
export function examine(request: SanitizeRequest, detector: Detector = detect): Examined {
  if (request.level === "off") return examine({ ...request, level: "balanced" }, NOTHING_JUDGED);
  const { content, kind, level, mark, pdf } = request;
  const read = readable(content, kind, request.base_url, request);
  const { text: whole, cut_chars, hidden, links, unlisted, defused, evidence: of_writing } = read;
  const evidence = of_writing + (pdf?.is_scan === true ? EVIDENCE.scan : 0);
  // Detection is the slowest stage, so only the returned text is judged.
  const clean = whole.slice(0, request.max_chars).toWellFormed();
  const judged = judgeHidden([...hidden, ...(pdf?.hidden ?? [])], level, detector);
  return {
    clean,
    found: detector(clean, level, evidence, request.for_judges),
    hidden: { score: judged.score, removed: [...judged.removed, ...defused] },
    cut_chars: cut_chars + whole.length - clean.length,
    links: links.map((link) => link.url),
    ...(unlisted === undefined ? {} : { unlisted }),
    marker: mark,
  };
}

/** The last stage, with the opinion of judges if any was asked. */
export function present(
  { clean, found, hidden, cut_chars, links, unlisted, marker }: Examined,
  opinion: Opinion = NO_OPINION,
): Sanitized {
  const passages = merged([...found.passages, ...opinion.passages]);
  const score = Math.max(found.score, hidden.score, opinion.score);
  const certain = passages.filter(({ is_doubtful }) => !is_doubtful);
  const doubtful = passages.filter(({ is_doubtful }) => is_doubtful);
  return {
    text: fence(partsOf(clean, passages), cutNotice(cut_chars), marker),
    verdict: { injected: score >= 0.5, suspicious: doubtful.length > 0, score: Math.round(score * 1000) / 1000 },
    removed: [...instructions(clean, certain.slice(0, MAX_REMOVED)), ...hidden.removed].slice(0, MAX_REMOVED),
    marked: instructions(clean, doubtful.slice(0, MAX_REMOVED)),
    ...(opinion.reports.length === 0 ? {} : { judges: opinion.reports }),
    marker,
    links,
    ...(unlisted === undefined ? {} : { unlisted }),
  };
}

function cutNotice(cut_chars: number): string {
  return cut_chars === 0 ? "" : `\n[cut here: ${cut_chars} more characters]`;
}

/** The text without its removed passages, and its doubtful passages apart. */
function partsOf(text: string, passages: readonly Passage[]): Part[] {
  const parts: Part[] = [];
  let kept = "";
  let from = 0;
  for (const { start, end, is_doubtful } of passages) {
    kept += text.slice(from, start);
    from = end;
    if (!is_doubtful) {
      // `!` before `[` would make the placeholder an image with an address.
      kept += (kept.endsWith("!") ? " " : "") + GAP;
      continue;
    }
    parts.push({ text: kept, is_doubtful: false }, { text: text.slice(start, end), is_doubtful: true });
    kept = "";
  }
  return [...parts, { text: kept + text.slice(from), is_doubtful: false }];
}

function instructions(text: string, passages: readonly Passage[]): Removal[] {
  return passages.map(({ start, end, cues }) => removal(`instruction: ${cues.join(", ")}`, text.slice(start, end)));
}

/** Judges the hidden text, which is already removed. An instruction in it flags the page. */
function judgeHidden(
  hidden: readonly Hidden[],
  level: Level,
  detector: Detector,
): { score: number; removed: Removal[] } {
  // Every page has scripts and attributes, so they are reported only when they instruct.
  let score = 0;
  let budget = MAX_JUDGED;
  const instructing: Removal[] = [];
  const ordinary: Removal[] = [];
  /** Scores by text: pages repeat the texts of their images and links. */
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
    if (found >= 0.5) instructing.push(removal(technique, text));
    else if (ordinary.length < MAX_REMOVED && !/^(script|attribute-)/.test(technique))
      ordinary.push(removal(technique, text));
  }
  return { score, removed: [...instructing, ...ordinary] };
}

function removal(technique: string, text: string): Removal {
  const excerpt = normalise(text.slice(0, MAX_EXCERPT * 4))
    .text.replace(/\s+/g, " ")
    .trim();
  return { technique, excerpt: excerpt.slice(0, MAX_EXCERPT).toWellFormed() };
}
