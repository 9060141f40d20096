import { Resolver, lookup as systemLookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "../lib/clock.ts";

/** Resolves a host name to all its addresses, as text. */
export type Resolve = (hostname: string) => Promise<string[]>;

const HOSTS_FILE = "/etc/hosts";
/** The system's settings (hosts file and name servers) are reread after this time. */
const SETTINGS_MS = 5_000;
/** Timeout of one try, and the number of tries per server. */
const TRY_MS = 3_000;
const TRIES = 2;
/** Once one address family has an answer, the resolver waits this long for the other. */
const OTHER_FAMILY_MS = 1_000;

/**
 * Resolves names that a user or a model may choose, by the hosts file and then by queries to the system's name servers.
 * A query that waits for its answer holds no thread.
 *
 * The system's own lookup holds one: two names that hang would block every other lookup in this process, the providers'
 * included. `bySystem` selects the names that use it anyway: names from the operator, whose networks may resolve names
 * by other means.
 */
export function createResolver(options: {
  bySystem(hostname: string): boolean;
  servers?: string[];
  hosts_file?: string;
}): Resolve {
  const { bySystem, servers, hosts_file = HOSTS_FILE } = options;
  let known: { until_ms: number; hosts: Promise<string>; resolver: Resolver } | undefined;

  const settings = () => {
    if (known === undefined || known.until_ms <= monotonicMs()) {
      const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
      if (servers !== undefined) resolver.setServers(servers);
      const hosts = readFile(hosts_file, "utf8").then(
        (text) => text.toLowerCase(),
        () => "",
      );
      known = { until_ms: monotonicMs() + SETTINGS_MS, hosts, resolver };
    }
    return known;
  };
  const byServers = async (hostname: string, resolver: Resolver): Promise<string[]> => {
    const four = resolver.resolve4(hostname).catch(() => []);
    const six = resolver.resolve6(hostname).catch(() => []);
    return (await Promise.all([unlessLate(four, six), unlessLate(six, four)])).flat();
  };

  return async (hostname) => {
    const name = (hostname.endsWith(".") ? hostname.slice(0, -1) : hostname).toLowerCase();
    if (name === "") return [];
    if (bySystem(name)) return (await systemLookup(hostname, { all: true })).map(({ address }) => address);
    const { hosts, resolver } = settings();
    const fixed = fixedAddresses(await hosts, name);
    if (fixed.length > 0) return fixed;
    // RFC 6761: name servers are never asked for localhost.
    if (name === "localhost" || name.endsWith(".localhost")) return ["127.0.0.1", "::1"];
    return byServers(name, resolver);
  };
}

/**
 * `asked`, or an empty list if it stays silent for OTHER_FAMILY_MS after the `other` family has an answer. Some servers
 * drop AAAA queries.
 */
function unlessLate(asked: Promise<string[]>, other: Promise<string[]>): Promise<string[]> {
  const given_up = other.then((found) => (found.length > 0 ? delay(OTHER_FAMILY_MS, [], { ref: false }) : asked));
  return Promise.race([asked, given_up]);
}

/**
 * The addresses of one name in a lower-case hosts file (hosts(5): each line has an address and its names).
 *
 * Parses only the lines of that name. A list of blocked hosts has hundreds of thousands of lines, which would block the
 * process.
 */
function fixedAddresses(text: string, name: string): string[] {
  const addresses = new Set<string>();
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + name.length)) {
    if (/\S/.test(text.charAt(at - 1)) || /[^\s#]/.test(text.charAt(at + name.length))) continue;
    const begin = text.lastIndexOf("\n", at) + 1;
    const end = text.indexOf("\n", at);
    const line = text.slice(begin, end === -1 ? undefined : end).replace(/#.*/, "");
    const [address = "", ...names] = line.trim().split(/\s+/);
    if (isIP(address) !== 0 && names.includes(name)) addresses.add(address);
  }
  return [...addresses];
}
