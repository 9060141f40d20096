import { getDocumentProxy, getResolvedPDFJS } from "unpdf";
import type { Box } from "./pdf-grid.ts";
import { MIN_HEIGHT } from "./pdf-letters.ts";
import { readPage } from "./pdf-page.ts";
import type { Font, Glyph } from "./pdf-state.ts";
import type { Hidden } from "./visible.ts";

const MAX_PAGES = 300;
const MAX_CHARS = 1_000_000;

/** The parser prints warnings to the console, which is the log's output. It leaves out images of more than no pixels. */
const OPTIONS = { verbosity: 0, maxImageSize: 0, disableFontFace: false } as const;
/** Annotations are not text of the page. */
const WITHOUT_ANNOTATIONS = { annotationMode: 0 } as const;

/** What a PDF says. */
export interface PdfText {
  /** What its reader sees, with a blank line between pages. */
  readonly text: string;
  /** What its reader does not see. */
  readonly hidden: readonly Hidden[];
  /** Whether invisible text of scanned pages is in `text`. Nobody knows whether it says what the images say. */
  readonly is_scan: boolean;
}

type Page = Awaited<ReturnType<Awaited<ReturnType<typeof getDocumentProxy>>["getPage"]>>;
type Layers = { isVisible: (layer: unknown) => boolean };

/**
 * Returns the text of a PDF, or null when it is not a readable PDF. Cuts long documents. Run it only in a thread
 * (sanitizer.ts), because the parser has no limits.
 */
export async function pdfText(bytes: Uint8Array): Promise<PdfText | null> {
  try {
    const { OPS } = await getResolvedPDFJS();
    const document = await getDocumentProxy(bytes, OPTIONS);
    const layers = (await document.getOptionalContentConfig()) as Layers;
    const pages: string[] = [];
    const hidden: Hidden[] = [];
    let length = 0;
    let is_scan = false;
    for (let number = 1; number <= Math.min(document.numPages, MAX_PAGES) && length < MAX_CHARS; number++) {
      const page = await document.getPage(number);
      const read = await textOf(page, OPS, layers);
      length += read.text.length + read.hidden.reduce((sum, { text }) => sum + text.length, 0);
      pages.push(read.text.trim());
      for (const each of read.hidden) hidden.push(each);
      is_scan ||= read.is_scan;
      page.cleanup();
    }
    await document.cleanup();
    return { text: pages.join("\n\n").slice(0, MAX_CHARS).toWellFormed(), hidden, is_scan };
  } catch {
    return null;
  }
}

async function textOf(page: Page, operators: Readonly<Record<string, number>>, layers: Layers): Promise<PdfText> {
  const { items } = await page.getTextContent();
  const drawing = await page.getOperatorList(WITHOUT_ANNOTATIONS);
  const fontOf = (name: string): Font | null => {
    if (!page.commonObjs.has(name)) return null;
    const { vertical, isType3Font, fontMatrix } = page.commonObjs.get(name);
    return { is_vertical: vertical === true, is_drawn: isType3Font === true, unit: fontMatrix?.[0] ?? 0.001 };
  };
  const { glyphs, is_scan } = readPage(drawing, operators, {
    view: page.view as unknown as Box,
    user_unit: page.userUnit,
    fontOf,
    isLayerShown: (layer) => layers.isVisible(layer),
  });
  const seen = glyphs.some(({ hidden_by }) => hidden_by !== null) ? seenAmong(glyphs) : (text: string) => text;
  const hidden = hiddenAmong(glyphs);
  let text = "";
  for (const item of items) {
    if (!("str" in item)) continue;
    const part = seen(item.str);
    const is_tiny = item.height * page.userUnit < MIN_HEIGHT && part.trim() !== "";
    if (is_tiny) hidden.push({ technique: "tiny-font", text: part });
    text += (is_tiny ? "" : part) + (item.hasEOL ? "\n" : "");
  }
  return { text, hidden, is_scan };
}

function hiddenAmong(glyphs: readonly Glyph[]): Hidden[] {
  const found: { technique: string; text: string }[] = [];
  let before_it: string | null = null;
  for (const { text, before, hidden_by } of glyphs) {
    const last = found.at(-1);
    if (hidden_by !== null && hidden_by === before_it && last !== undefined) last.text += before + text;
    else if (hidden_by !== null) found.push({ technique: hidden_by, text });
    before_it = hidden_by;
  }
  return found;
}

/** The letters of a text, as they are compared: one that stands for several is several, and spaces do not count. */
const lettersOf = (text: string): string => text.normalize("NFKD").replace(/[\s\p{Cf}]/gu, "");
/** How far ahead the letters of a piece of text are looked for. */
const MAX_AHEAD = 2_000;

/**
 * Returns what is seen of the pieces of a page's text, which are asked for in their order. The parser writes the same
 * letters in the same order as the page, and turns those of right-to-left text.
 */
function seenAmong(glyphs: readonly Glyph[]): (text: string) => string {
  let all = "";
  const is_seen: boolean[] = [];
  for (const { text, hidden_by, is_left_out } of glyphs) {
    if (is_left_out) continue;
    const letters = lettersOf(text);
    all += letters;
    for (let at = 0; at < letters.length; at++) is_seen.push(hidden_by === null);
  }
  let from = 0;
  return (text) => {
    const letters = lettersOf(text);
    const ahead = all.slice(from, from + letters.length + MAX_AHEAD);
    const found = ahead.indexOf(letters);
    const is_turned = found !== 0 && sorted(ahead.slice(0, letters.length)) === sorted(letters);
    const start = from + (is_turned ? 0 : Math.max(found, 0));
    const parts = is_seen.slice(start, start + letters.length);
    if (found >= 0 || is_turned) from = start + letters.length;
    if (parts.every((each) => each)) return text;
    // It is not known which of turned letters are hidden.
    return found < 0 || is_turned ? "" : seenPart(text, parts);
  };
}

const sorted = (text: string): string => [...text].sort().join("");

function seenPart(text: string, is_seen: readonly boolean[]): string {
  let part = "";
  let at = 0;
  for (const char of text) {
    const { length } = lettersOf(char);
    // The spaces around hidden letters become one.
    const keeps = length > 0 ? is_seen.slice(at, at + length).every((each) => each) : !/\s$/.test(part);
    at += length;
    if (keeps) part += char;
  }
  return part;
}
