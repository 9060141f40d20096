import { plainJson } from "./json-text.ts";
import { type ListedLinks, linksOf, listLinks, shownLinks } from "./links.ts";
import { visibleMarkdown } from "./markdown.ts";
import { type Normalised, normalise } from "./normalise.ts";
import { type Hidden, type VisibleText, visibleText } from "./visible.ts";
import { visibleXml } from "./xml-text.ts";

export type ContentKind = "html" | "markdown" | "text" | "json" | "xml";

export interface Readable {
  /** The visible text, in the output view. */
  readonly text: string;
  readonly hidden: readonly Hidden[];
  readonly links: ListedLinks["links"];
  readonly unlisted?: ListedLinks["unlisted"];
  /** Characters at the end of the text that were left out. */
  readonly cut_chars: number;
  /** Parts that were rewritten instead of removed: the technique and the original text. */
  readonly defused: readonly { technique: string; excerpt: string }[];
  /** Evidence from the way the text is written, in logits (detect.ts). */
  readonly evidence: number;
}

/** Evidence of an attack besides the words, in the detector's logits. */
export const EVIDENCE = {
  /** The invisible text of a scan, of which nobody knows whether the images say the same (pdf-page.ts). */
  scan: 0.5,
  turned: 3,
  invisible_characters: 6,
  split_words: 1.5,
  many_split_words: 3,
} as const;
/** Fewer words split by invisible characters than this may be an editor's error. */
const MIN_SPLIT_WORDS = 5;
/** This many are not an error. */
const MANY_SPLIT_WORDS = 12;

/** The name of the technique that spells text in invisible characters. */
const SMUGGLED = "invisible-characters";
/** The name of the technique that displays text backwards. */
const TURNED = "bidi-override";

/** The evidence of hiding a text in this way (detect.ts). Other ways count nothing, because honest pages use them too. */
export function evidenceOfHiding(technique: string): number {
  if (technique === TURNED) return EVIDENCE.turned;
  return technique === SMUGGLED ? EVIDENCE.invisible_characters : 0;
}

function evidenceOfSplitting(split_words: number): number {
  if (split_words >= MANY_SPLIT_WORDS) return EVIDENCE.many_split_words;
  return split_words >= MIN_SPLIT_WORDS ? EVIDENCE.split_words : 0;
}

export interface ReadingOptions {
  /** Reads the list of the links from this one on, instead of the text. */
  readonly links_from?: number | undefined;
  /** The longest text to return. */
  readonly max_chars?: number | undefined;
}

/** The first two stages. Returns what the detector judges; `text` is the visible text in the output view. */
export function readable(
  content: string,
  kind: ContentKind,
  base_url?: string,
  { links_from: from, max_chars = Number.POSITIVE_INFINITY }: ReadingOptions = {},
): Readable {
  const seen = visible(content, kind, base_url);
  const body = normalise(seen.text);
  const whole = withoutLiveImages(body.text);
  const all = linksOf({ ...seen, text: body.text }, kind, base_url);
  const shown = shownLinks(all, { text: whole.slice(0, max_chars), kind, is_cut: whole.length > max_chars });
  const listed = listLinks(all, { kind, shown, from, max_chars: from === undefined ? max_chars / 2 : max_chars });
  const list = normalise(listed.list);
  const list_text = withoutLiveImages(list.text);
  const text = from === undefined ? whole.slice(0, Math.max(0, max_chars - list_text.length)) : "";
  const spelled = [...body.smuggled, ...list.smuggled].map((text) => ({ technique: SMUGGLED, text }));
  return {
    text: text + list_text,
    cut_chars: from === undefined ? whole.length - text.length : 0,
    hidden: [...seen.hidden, ...spelled, ...[...body.turned, ...list.turned].flatMap(bothWays)],
    links: listed.links,
    ...(listed.unlisted === undefined ? {} : { unlisted: listed.unlisted }),
    defused: [...defusedIn(body), ...defusedIn(list)],
    evidence: evidenceOfSplitting(body.split_words + list.split_words),
  };
}

/** Either reading may be the order: as people see it, or as a model would read it. */
function bothWays(text: string): Hidden[] {
  const plain = text.slice(1);
  return [Array.from(plain).reverse().join(""), plain].map((reading) => ({ technique: TURNED, text: reading }));
}

function defusedIn({ unseen, defused }: Normalised): Readable["defused"] {
  const characters = unseen === 1 ? "1 character" : `${unseen} characters`;
  return [
    ...(unseen === 0 ? [] : [{ technique: SMUGGLED, excerpt: `${characters} that no reader sees` }]),
    ...defused.map((excerpt) => ({ technique: "chat-template-token", excerpt })),
  ];
}

function visible(content: string, kind: ContentKind, base_url: string | undefined): VisibleText {
  switch (kind) {
    case "html":
      return visibleText(content);
    case "markdown":
      return visibleMarkdown(content);
    case "json":
      return { text: plainJson(content), hidden: [], links: [] };
    case "xml":
      return visibleXml(content, base_url);
    case "text":
      return { text: content, hidden: [], links: [] };
  }
}

/**
 * Breaks live images: a client that renders the model's answer would fetch an image's address with all data in it.
 * Browsers read `<image` as `<img`.
 */
function withoutLiveImages(text: string): string {
  return text.replace(/!\[/g, "! [").replace(/<(?=(?:img|image)\b)/gi, "(");
}
