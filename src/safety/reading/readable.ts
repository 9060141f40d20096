import { plainJson } from "./json-text.ts";
import { visibleMarkdown } from "./markdown.ts";
import { type Normalised, normalise } from "./normalise.ts";
import { MAX_LINKS } from "./text-writer.ts";
import { type Hidden, type VisibleText, visibleText } from "./visible.ts";

export type ContentKind = "html" | "markdown" | "text";

export interface Readable {
  /** The visible text, in the output view. */
  readonly text: string;
  readonly hidden: readonly Hidden[];
  readonly links: readonly { text: string; url: string }[];
  /** Parts that were rewritten instead of removed: the technique and the original text. */
  readonly defused: readonly { technique: string; excerpt: string }[];
  /** Evidence from the way the text is written, in logits (detect.ts). */
  readonly evidence: number;
}

/** Evidence of an attack besides the words, in the detector's logits. */
export const EVIDENCE = {
  hidden: 1,
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
const MAX_LINKS_LISTED = 100;
const MAX_LINK_TEXT = 80;
const MAX_LINK_URL = 300;

/** The evidence of hiding a text in this way (detect.ts). */
export function evidenceOfHiding(technique: string): number {
  if (technique === TURNED) return EVIDENCE.turned;
  return technique === SMUGGLED ? EVIDENCE.invisible_characters : EVIDENCE.hidden;
}

function evidenceOfSplitting(split_words: number): number {
  if (split_words >= MANY_SPLIT_WORDS) return EVIDENCE.many_split_words;
  return split_words >= MIN_SPLIT_WORDS ? EVIDENCE.split_words : 0;
}

/** The first two stages. Returns what the detector judges; `text` is the visible text in the output view. */
export function readable(content: string, kind: ContentKind | "json", base_url?: string): Readable {
  const seen = visible(content, kind);
  const links = absoluteLinks(seen.links, baseAddress(seen.base, base_url));
  const normalised = normalise(kind === "html" ? seen.text + linkList(links) : seen.text);
  const { text, smuggled, turned, split_words } = normalised;
  const spelled = smuggled.map((text) => ({ technique: SMUGGLED, text }));
  return {
    text: withoutLiveImages(text),
    hidden: [...seen.hidden, ...spelled, ...turned.flatMap(bothWays)],
    links,
    defused: defusedIn(normalised),
    evidence: evidenceOfSplitting(split_words),
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

function visible(content: string, kind: ContentKind | "json"): VisibleText {
  switch (kind) {
    case "html":
      return visibleText(content);
    case "markdown":
      return visibleMarkdown(content);
    case "json":
      return { text: plainJson(content), hidden: [], links: [] };
    case "text":
      return { text: content, hidden: [], links: [] };
  }
}

/** Where relative links begin: the page's own base if it is a web address, otherwise the page's address. */
function baseAddress(own: string | undefined, base_url: string | undefined): string | undefined {
  const base = own === undefined ? null : URL.parse(own, base_url);
  return base !== null && /^https?:$/.test(base.protocol) ? base.href : base_url;
}

/** The first links, each address once. */
function absoluteLinks(links: VisibleText["links"], base: string | undefined): { text: string; url: string }[] {
  const kept = new Map<string, string>();
  for (const { text, url } of links) {
    if (kept.size === MAX_LINKS) break;
    const absolute = URL.parse(url, base);
    const is_new = absolute !== null && /^https?:$/.test(absolute.protocol) && !kept.has(absolute.href);
    if (is_new) kept.set(absolute.href, text);
  }
  return [...kept].map(([url, text]) => ({ url, text }));
}

/** Lists the addresses after the text, so that they do not interrupt sentences. */
function linkList(links: readonly { text: string; url: string }[]): string {
  const lines = links
    .filter(({ text, url }) => text !== "" && text.length <= MAX_LINK_TEXT && url.length <= MAX_LINK_URL)
    .slice(0, MAX_LINKS_LISTED)
    .map(({ text, url }) => `- ${text}: ${url}`);
  return lines.length === 0 ? "" : `\n\nLinks:\n${lines.join("\n")}`;
}

/**
 * Breaks live images: a client that renders the model's answer would fetch an image's address with all data in it.
 * Browsers read `<image` as `<img`.
 */
function withoutLiveImages(text: string): string {
  return text.replace(/!\[/g, "! [").replace(/<(?=(?:img|image)\b)/gi, "(");
}
