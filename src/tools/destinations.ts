import { isListedHost } from "../contract/hosts.ts";

/** Where a tool may go, as far as the user's configuration and the run's taint say. Pure; addresses are outbound's job. */

/** What has come into a run so far. */
export interface Taint {
  /** Untrusted content has entered the run. */
  readonly tainted: boolean;
  /** All that the owner wrote: system prompt, run prompt, their messages. */
  readonly owner_text: string;
  /** Links of the pages fetched in this run. */
  readonly links: ReadonlySet<string>;
}

/** As long as web_fetch takes them. */
const OWNER_URL = /https?:\/\/[^\s<>"'`]{1,4000}/gi;
/** What ends a sentence, and not the address in it. */
const TRAILING = new Set(").,;:!?]}*");

/**
 * contract 7: after untrusted content has entered, only URLs that the owner wrote, or that a fetched page links to, or
 * at a host that the owner listed. Whatever the model puts together is refused: an address can carry data out.
 */
export function isUrlKnown(url: URL, taint: Taint, hosts: readonly string[]): boolean {
  if (!taint.tainted || isListedHost(url, hosts)) return true;
  const wanted = withoutFragment(url.href);
  for (const link of taint.links) if (withoutFragment(link) === wanted) return true;
  const owners = taint.owner_text.match(OWNER_URL) ?? [];
  return owners.some((text) =>
    [text, withoutTrailing(text)].some((own) => withoutFragment(URL.parse(own)?.href ?? "") === wanted),
  );
}

/** The fragment is never sent: two addresses that differ in it alone are one destination. */
function withoutFragment(href: string): string {
  return href.split("#", 1)[0] ?? href;
}

function withoutTrailing(text: string): string {
  let end = text.length;
  while (end > 0 && TRAILING.has(text[end - 1] ?? "")) end--;
  return text.slice(0, end);
}
