import { z } from "./zod.ts";

/** Where something may go, as users write it: `host` (its scheme's port), `host:port`, or `*.host` for exactly one label more. */

// Without flags: the document at /openapi.json has no place for them.
const HOST =
  /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?(:\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/;

export const hostSchema = z.string().max(260).regex(HOST, "`host`, `host:port` or `*.host`");

interface HostEntry {
  readonly name: string;
  /** Text, so that "the scheme's own" has a place: undefined. */
  readonly port: string | undefined;
}

function parse(entry: string): HostEntry {
  const [, name = "", port] = /^(.*?)(?::(\d{1,5}))?$/.exec(entry.toLowerCase()) ?? [];
  return { name: name.replace(/\.$/, ""), port: port === undefined ? undefined : String(Number(port)) };
}

/** The one spelling of an entry: lower case, without the root dot. */
export function normalHost(entry: string): string {
  const { name, port } = parse(entry);
  return port === undefined ? name : `${name}:${port}`;
}

/** Whether `name` is `pattern`, or one label before it when that begins with `*.`. */
function isNamed(name: string, pattern: string): boolean {
  if (!pattern.startsWith("*.") || name === pattern) return name === pattern;
  const dot = name.indexOf(".");
  return dot > 0 && !name.startsWith("*") && name.slice(dot + 1) === pattern.slice(2);
}

/** Whether `url` is at one of `hosts`. */
export function isListedHost(url: URL, hosts: readonly string[]): boolean {
  const name = url.hostname.replace(/\.$/, "");
  const own_port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return hosts.some((entry) => {
    const wanted = parse(entry);
    return (wanted.port === undefined ? url.port === "" : wanted.port === own_port) && isNamed(name, wanted.name);
  });
}

/** The one spelling of each entry, by list: settings with thousands of hosts are compared pair by pair. */
const spellings = new WeakMap<readonly string[], ReadonlySet<string>>();

function spellingsOf(hosts: readonly string[]): ReadonlySet<string> {
  const known = spellings.get(hosts) ?? new Set(hosts.map(normalHost));
  spellings.set(hosts, known);
  return known;
}

/** Whether every host that `narrow` lets through, `wide` does too. null lets all through. */
export function isWithinHosts(narrow: readonly string[] | null, wide: readonly string[] | null): boolean {
  if (wide === null) return true;
  if (narrow === null) return false;
  const allowed = spellingsOf(wide);
  return [...spellingsOf(narrow)].every((host) => isIncluded(host, allowed));
}

function isIncluded(host: string, allowed: ReadonlySet<string>): boolean {
  return allowed.has(host) || allowed.has(getWildcard(host) ?? host);
}

/** `*.host` that includes this host; null if none does. */
function getWildcard(host: string): string | null {
  const dot = host.indexOf(".");
  return dot > 0 && !host.startsWith("*") ? `*${host.slice(dot)}` : null;
}

/** The hosts that both lists let through, by the narrower entry. */
export function commonHosts(one: readonly string[], other: readonly string[]): string[] {
  const [ours, theirs] = [spellingsOf(one), spellingsOf(other)];
  const of_ours = [...ours].filter((host) => isIncluded(host, theirs));
  return [...new Set([...of_ours, ...[...theirs].filter((host) => isIncluded(host, ours))])];
}

/** Whether `text` is no URL with a user name or password. */
export function isPlainAddress(text: string): boolean {
  const url = URL.parse(text);
  return url === null || (url.username === "" && url.password === "");
}
