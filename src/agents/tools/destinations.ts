import { isListedHost } from "../../api/contract/hosts.ts";
import type { PermissionPolicy } from "../../api/contract/tool-fields.ts";
import { writtenUrls } from "../../platform/lib/written-urls.ts";

/** The destinations that the user's configuration and the run's taint allow a tool. Outbound checks addresses. */

/** The content that has entered a run so far. */
export interface Taint {
  /** Untrusted content has entered the run. */
  readonly tainted: boolean;
  /** Servers describe their tools in the prompt. Their owner still chooses what calls of these tools do. */
  readonly described?: boolean;
  /** All text that the owner wrote: system prompt, run prompt, their messages. */
  readonly owner_text: string;
  /** Links of the pages fetched in this run. */
  readonly links: ReadonlySet<string>;
}

/** Whether outside text can have asked for an address: a tool's result, or the description of a server's tool. */
export function hasOutsideContent({ tainted, described = false }: Taint): boolean {
  return tainted || described;
}

/** Whether a call under this policy waits for a person. `is_untrusted`: the run has read outside content. */
export function asksFirst(policy: PermissionPolicy, is_untrusted: boolean): boolean {
  return policy === "always_ask" || (policy === "ask_after_untrusted" && is_untrusted);
}

/**
 * contract 7: after untrusted content has entered, only URLs that the owner wrote, that a fetched page links to, or at
 * a host that the owner listed. URLs that the model composed are blocked, because an address can carry data out.
 */
export function isUrlKnown(url: URL, taint: Taint, hosts: readonly string[]): boolean {
  if (!hasOutsideContent(taint) || isListedHost(url, hosts)) return true;
  const wanted = withoutFragment(url.href);
  for (const link of taint.links) if (withoutFragment(link) === wanted) return true;
  for (const readings of writtenUrls(taint.owner_text, { all: true })) {
    for (const own of readings) if (withoutFragment(URL.parse(own)?.href ?? "") === wanted) return true;
  }
  return false;
}

/** The fragment is never sent: two addresses that differ only in the fragment are one destination. */
function withoutFragment(href: string): string {
  return href.split("#", 1)[0] ?? href;
}
