import { writtenUrls } from "../../platform/lib/written-urls.ts";
import { MAX_COUNTED_LINKS } from "./text-writer.ts";
import type { VisibleText } from "./visible.ts";

/** The addresses that a page leads to, and the list of them for the model. */

export interface Link {
  readonly text: string;
  readonly url: string;
}

export interface ListedLinks {
  /** The list, to follow the text; "" without one. */
  readonly list: string;
  /** The addresses that may be opened: 500 at most, which bounds what their choice can tell a site. */
  readonly links: readonly Link[];
  /** How many addresses neither the text nor the list shows, and the number of the first one. Absent: they show all. */
  readonly unlisted?: { readonly count: number; readonly from: number };
}

const MAX_LINKS = 500;
const MAX_LISTED = 100;
const MAX_TEXT = 80;
const MAX_URL = 300;
/** A value of JSON that is an address on the same site. */
const JSON_PATH = /"(\/[^\s"\\/][^\s"\\]{0,2000})"(?!:)/g;

/** The links of a page, each address once. Texts other than HTML show their addresses, and these come first. */
export function linksOf({ text, links, base }: VisibleText, kind: string, base_url: string | undefined): Link[] {
  const from = baseAddress(base, base_url);
  const kept = new Map<string, string>();
  const add = (text: string, url: string) => {
    const absolute = kept.size < MAX_COUNTED_LINKS ? URL.parse(url, from) : null;
    if (absolute === null || !/^https?:$/.test(absolute.protocol) || kept.has(absolute.href)) return;
    kept.set(absolute.href, text);
  };
  if (kind !== "html") for (const urls of writtenUrls(text)) for (const url of urls) add("", url);
  if (kind === "json") for (const [, path = ""] of text.matchAll(JSON_PATH)) add("", path);
  for (const { text, url } of links) add(text, url);
  const all = [...kept].map(([url, text]) => ({ url, text }));
  // The list has only links with short texts and addresses, as long as nobody asks for the others.
  return kind === "html" ? [...all.filter(isShort), ...all.filter((link) => !isShort(link))] : all;
}

/** Where relative links begin: the page's own base if it is a web address, otherwise the page's address. */
function baseAddress(own: string | undefined, base_url: string | undefined): string | undefined {
  const base = own === undefined ? null : URL.parse(own, base_url);
  return base !== null && /^https?:$/.test(base.protocol) ? base.href : base_url;
}

function isShort({ text, url }: Link): boolean {
  return text !== "" && text.length <= MAX_TEXT && url.length <= MAX_URL;
}

/**
 * Lists links after the text, because addresses in it would interrupt sentences.
 * @param given.shown how many of the links the text shows itself
 * @param given.from the first link to list, for an answer that is the list alone
 */
export function listLinks(
  all: readonly Link[],
  given: { kind: string; shown: number; from: number | undefined; max_chars: number },
): ListedLinks {
  const { kind, shown, from, max_chars } = given;
  const links = all.slice(from ?? 0, (from ?? 0) + MAX_LINKS);
  const rest = from === undefined ? links.slice(shown, shown + MAX_LISTED) : links;
  let list = "";
  let next = from ?? Math.min(shown, links.length);
  for (const link of rest) {
    if (from === undefined && kind === "html" && !isShort(link)) break;
    const label = link.text.length > MAX_TEXT ? `${link.text.slice(0, MAX_TEXT)}…` : link.text;
    const line = `\n- ${label === "" ? "" : `${label}: `}${link.url}`;
    if (list.length + line.length > max_chars) break;
    list += line;
    next += 1;
  }
  const heading = from === undefined ? "\n\nLinks:" : `Links from ${from} on:`;
  const unlisted = next < all.length ? { unlisted: { count: all.length - next, from: next } } : {};
  return { list: list === "" ? "" : heading + list, links, ...unlisted };
}

/** How many of the links a text other than HTML shows. `text` is the part of it that the model gets. */
export function shownLinks(
  all: readonly Link[],
  { text, kind, is_cut }: { text: string; kind: string; is_cut: boolean },
) {
  if (kind === "html") return 0;
  if (!is_cut && kind !== "xml") return all.length;
  const shown = new Set<string>();
  for (const urls of writtenUrls(text)) for (const url of urls) shown.add(URL.parse(url)?.href ?? "");
  const first_unseen = all.findIndex(({ url }) => !shown.has(url));
  return first_unseen < 0 ? all.length : first_unseen;
}
