import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { dirname, resolve } from "node:path";
import ipaddr from "ipaddr.js";
import { databaseUrls } from "../platform/db/database-hosts.ts";
import { type Instant, instantOf } from "../platform/lib/instant.ts";
import { parseEgressAllow } from "../platform/net/address.ts";

/**
 * Parsers of single settings. Each takes the variable's text and returns its value, or throws an Error that says what is
 * wrong. Parsers of secrets never repeat the text.
 */

const SHOWN_CHARACTERS = 80;
const HOST_NAME =
  /^(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$/;

/** Quotes and shortens `text` for a one-line message. */
function quoted(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text);
}

/** An IP address or a host name. */
export function parseHost(text: string): string {
  const looksLikeAddress = /^[\d.]+$/.test(text);
  if (isIP(text) !== 0 || (!looksLikeAddress && HOST_NAME.test(text))) return text;
  throw new Error(`${quoted(text)} is not a host`);
}

/** A TCP port; 0 asks the system for a free one. */
export function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new Error(`${quoted(text)} is not a port`);
}

/** `host:port`, an IPv6 address in square brackets; port 0 asks the system for a free one. */
function parseHostAndPort(text: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*)):(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || port === undefined) throw new Error(`${quoted(text)} is not host:port`);
  if (bracketed !== undefined && isIP(bracketed) !== 6) throw new Error(`${quoted(bracketed)} is not an IPv6 address`);
  return { host: parseHost(host), port: parsePort(port) };
}

/** The same, beside the address of the service: two servers cannot have one port. */
export function parseMetricsAddress(service: { host: string; port: number }) {
  return (text: string) => {
    const { host, port } = parseHostAndPort(text);
    const is_shared = host === service.host || [host, service.host].some((each) => ["0.0.0.0", "::"].includes(each));
    if (port === service.port && port !== 0 && is_shared) throw new Error(`port ${port} is the one of HOST and PORT`);
    return { host, port };
  };
}

/** A whole number within limits. */
export function parseWhole(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= least && number <= most) return number;
    throw new Error(`${quoted(text)} is not one`);
  };
}

/** One of a few words, as written. */
export function parseOneOf<const Word extends string>(words: readonly Word[]): (text: string) => Word {
  return (text) => {
    const word = words.find((candidate) => candidate === text);
    if (word === undefined) throw new Error(`${quoted(text)} is not one of them`);
    return word;
  };
}

/** An address with one of `schemes`. It may hold a password, so that no message repeats it. */
export function parseUrlWithScheme(...schemes: string[]): (text: string) => string {
  return (text) => {
    const url = URL.parse(text);
    if (url === null) throw new Error("it is not a URL");
    if (!schemes.includes(url.protocol.slice(0, -1))) throw new Error(`its scheme is ${quoted(url.protocol)}`);
    return text;
  };
}

/** A PostgreSQL URL with one or several hosts. */
export function parseDatabaseUrl(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0];
  if (scheme === undefined) throw new Error("it is not a URL");
  if (!["postgres:", "postgresql:"].includes(scheme)) throw new Error(`its scheme is ${quoted(scheme)}`);
  databaseUrls(text);
  return text;
}

/** The URL of one server that need not accept writes, beside the one of `database_url`. */
export function parseStandbyUrl(database_url: string | null): (text: string) => string {
  return (text) => {
    if (database_url === null) throw new Error("DATABASE_URL is not set");
    const { urls, must_write } = databaseUrls(parseDatabaseUrl(text));
    if (urls.length > 1) throw new Error("it names several hosts");
    if (must_write) throw new Error("it has target_session_attrs, and a standby accepts no writes");
    return text;
  };
}

/** A range of routing buckets, such as `00-Uz`: two base62 characters each, in the order of ASCII. */
export function parseBuckets(text: string): { first: string; last: string } {
  const [, first = "", last = ""] = /^([0-9A-Za-z]{2})-([0-9A-Za-z]{2})$/.exec(text) ?? [];
  if (first === "") throw new Error(`${quoted(text)} is not two characters, a hyphen and two characters`);
  if (first > last) throw new Error(`${first} comes after ${last}`);
  return { first, last };
}

/** An http or https address without path, query or credentials, as browsers write an Origin. */
export function parseOrigin(text: string): string {
  const url = URL.parse(text);
  if (url === null) throw new Error(`${quoted(text)} is not a URL`);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new Error(`its scheme is ${quoted(url.protocol)}`);
  if (url.username !== "" || url.password !== "") throw new Error("it holds credentials");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") throw new Error("it goes on after the host");
  return url.origin;
}

/** An http or https address that paths are appended to; comes back without a slash at its end. */
export function parseBaseUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new Error("it is not an http address");
  if (url.search !== "" || url.hash !== "") throw new Error("it has a query or a fragment");
  return text.replace(/\/+$/, "");
}

/** A credential: printable ASCII without spaces, so that it fits a header. */
export function parseCredential(text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text;
  throw new Error("it holds a space, a line break or a character outside ASCII");
}

/** A directory that is there or can be made. */
export function parseDirectory(text: string): string {
  let path = resolve(text);
  let found = statSync(path, { throwIfNoEntry: false });
  while (found === undefined && dirname(path) !== path) {
    path = dirname(path);
    found = statSync(path, { throwIfNoEntry: false });
  }
  if (found !== undefined && !found.isDirectory()) throw new Error(`${quoted(path)} is not a directory`);
  return text;
}

/** An ISO 8601 instant with `Z` or an offset, within the years whose text order is time order. */
export function parseInstant(text: string): Instant {
  let instant: Temporal.Instant;
  try {
    instant = Temporal.Instant.from(text);
  } catch {
    throw new Error(`${quoted(text)} is not an instant`);
  }
  const { year } = instant.toZonedDateTimeISO("UTC");
  if (year < 1970 || year >= 2200) throw new Error(`the year ${year} is out of range`);
  return instantOf(instant);
}

/** A comma list, parsed item by item; spaces around items are dropped. */
export function parseList<Item>(parseItem: (text: string) => Item): (text: string) => Item[] {
  return (text) => text.split(",").map((item) => parseItem(item.trim()));
}

/** An IPv4 or IPv6 network in CIDR notation. */
export function parseCidr(text: string): string {
  const [address = ""] = text.split("/");
  const full = ipaddr.IPv4.isValidFourPartDecimal(address) || ipaddr.IPv6.isValid(address);
  if (full && ipaddr.isValidCIDR(text)) return text;
  throw new Error(`${quoted(text)} is not a CIDR`);
}

/** `host:port` or a CIDR: what tools may reach although it is private. */
export function parseEgressAllowance(text: string): string {
  parseEgressAllow([text]);
  return text.toLowerCase();
}

/** `name@host` or `Name <name@host>`. */
export function parseMailbox(text: string): string {
  if (/^([^<>@\r\n]+ )?<[^\s<>@]+@[^\s<>@]+>$|^[^\s<>@]+@[^\s<>@]+$/.test(text)) return text;
  throw new Error(`${quoted(text)} is not a mail address`);
}

/**
 * A setting that prevents the start. The message is one line: the variable, the problem, the accepted values.
 * It never holds the value of a secret. The process prints it and exits 2.
 */
export class ConfigError extends Error {
  readonly variable: string;
  /** Further faults of the same file, each as one line. */
  readonly others: readonly string[];
  constructor(variable: string, problem: string, accepted: string, others: readonly string[] = []) {
    super(`${variable}: ${problem}; accepted: ${accepted}`.replaceAll(/\s*[\r\n]+\s*/g, " "));
    this.name = "ConfigError";
    this.variable = variable;
    this.others = others;
  }
}

/** With it after its name, a variable names the file that has its value. */
export const FILE_SUFFIX = "_FILE";

/** Environment variables. */
export type Env = Record<string, string | undefined>;

/**
 * `env` in which each variable may also be given as a file: `NAME_FILE` has the path, and NAME then has the file's text
 * without spaces and line breaks around it. Reading NAME throws a ConfigError if both are set or the file has no text.
 * `names` gets each name that is read.
 */
export function withFiles(env: Env, names: Set<string>): Env {
  return new Proxy(env, {
    get(target, name) {
      names.add(String(name));
      return readFromFile(target, String(name));
    },
  });
}

function readFromFile(env: Env, name: string): string | undefined {
  const [text, path] = [env[name], env[`${name}${FILE_SUFFIX}`]];
  if (!path) return text;
  const refuse = (problem: string) =>
    new ConfigError(
      name,
      `${name}${FILE_SUFFIX} ${problem}`,
      `${name}, or ${name}${FILE_SUFFIX} with the path of a file`,
    );
  if (text) throw refuse("is set too: remove one of them");
  let content: string;
  try {
    content = readFileSync(path, "utf8").trim();
  } catch (error) {
    throw refuse(`names ${quoted(path)}, which cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (content === "") throw refuse(`names ${quoted(path)}, which is empty`);
  return content;
}

/** The value of a variable; undefined if it is unset or empty. Throws a ConfigError for an invalid one. */
export function read<Value>(
  env: Env,
  variable: string,
  parse: (text: string) => Value,
  accepted: string,
): Value | undefined {
  const text = env[variable];
  if (text === undefined || text === "") return undefined;
  try {
    return parse(text);
  } catch (error) {
    throw new ConfigError(variable, (error as Error).message, accepted);
  }
}
