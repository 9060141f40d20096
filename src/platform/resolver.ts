import { Resolver, lookup as systemLookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "./clock.ts";

/** Every address a name stands for, as text. */
export type Resolve = (hostname: string) => Promise<string[]>;

const HOSTS_FILE = "/etc/hosts";
/** The system's settings, the hosts file and which name servers there are, are read anew so often. */
const SETTINGS_MS = 5_000;
/** A try; each server is asked so often. */
const TRY_MS = 3_000;
const TRIES = 2;
/** Once a name is known by one family of addresses, the other is waited for so long. */
const OTHER_FAMILY_MS = 1_000;

/**
 * How names that a user or a model may choose become addresses: by the hosts file, and by questions to the system's name
 * servers that hold no thread while nobody answers. The system's own lookup does: two names that hang, and no other is
 * looked up in this process, the providers' included. `bySystem` says which names are worth it all the same: those
 * that the operator named, in whose networks names may stand for something by other means than the two.
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
    // RFC 6761: it is never asked for.
    if (name === "localhost" || name.endsWith(".localhost")) return ["127.0.0.1", "::1"];
    return byServers(name, resolver);
  };
}

/** `asked`, or nothing when it keeps silent for long after the `other` family of addresses is known: some servers drop AAAA. */
function unlessLate(asked: Promise<string[]>, other: Promise<string[]>): Promise<string[]> {
  const given_up = other.then((found) => (found.length > 0 ? delay(OTHER_FAMILY_MS, [], { ref: false }) : asked));
  return Promise.race([asked, given_up]);
}

/**
 * What a hosts file (hosts(5): an address and its names a line) in lower case says of one name. No more than that name's
 * lines are parsed: a list of blocked hosts has hundreds of thousands, which would keep everybody waiting.
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
