import { Resolver, lookup as systemLookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { monotonicMs } from "./clock.ts";

/** Every address a name stands for, as text. */
export type Resolve = (hostname: string) => Promise<string[]>;

const HOSTS_FILE = "/etc/hosts";
/** The system's settings, the hosts file and which name servers there are, are read anew so often. */
const SETTINGS_MS = 5_000;
/** A try; each server is asked so often. */
const TRY_MS = 3_000;
const TRIES = 2;

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
  let known: { until_ms: number; hosts: ReadonlyMap<string, string[]>; resolver: Resolver } | undefined;

  const settings = async () => {
    if (known === undefined || known.until_ms <= monotonicMs()) {
      const hosts = parseHosts(await readFile(hosts_file, "utf8").catch(() => ""));
      const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
      if (servers !== undefined) resolver.setServers(servers);
      known = { until_ms: monotonicMs() + SETTINGS_MS, hosts, resolver };
    }
    return known;
  };
  const byServers = async (hostname: string, resolver: Resolver): Promise<string[]> => {
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  };

  return async (hostname) => {
    const name = (hostname.endsWith(".") ? hostname.slice(0, -1) : hostname).toLowerCase();
    if (bySystem(name)) return (await systemLookup(hostname, { all: true })).map(({ address }) => address);
    const { hosts, resolver } = await settings();
    const fixed = hosts.get(name);
    if (fixed !== undefined) return fixed;
    // RFC 6761: it is never asked for.
    if (name === "localhost" || name.endsWith(".localhost")) return ["127.0.0.1", "::1"];
    return byServers(name, resolver);
  };
}

/** hosts(5): an address and its names a line. */
function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names) hosts.set(name, [...(hosts.get(name) ?? []), address]);
  }
  return hosts;
}
