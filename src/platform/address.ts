import ipaddr from "ipaddr.js";

/**
 * Which addresses and ports the service may dial for a user. Pure: no network.
 *
 * The rule is an allow-list: an address must be public unicast in so many words. Whatever ipaddr.js puts in any other
 * range (private, loopback, link-local, carrier-grade NAT, multicast, reserved, IPv4-mapped, NAT64, 6to4, Teredo, …)
 * is refused, so a range that we did not think of is refused as well.
 */

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** PURSER_EGRESS_ALLOW, parsed: what may be reached although it is not public. */
export interface EgressAllowance {
  /** `host:port`, lower case, IPv6 hosts in brackets: any address the name resolves to, on that port. */
  readonly hosts: ReadonlySet<string>;
  /** Networks: any host and any permitted port within. */
  readonly networks: readonly (readonly [Address, number])[];
}

/** Global unicast IPv6 is handed out from here only (RFC 4291, IANA); the rest is not the internet. */
const GLOBAL_UNICAST_V6: [ipaddr.IPv6, number] = ipaddr.IPv6.parseCIDR("2000::/3");

/** Public by range, yet not the internet: Azure's host agent, and the documentation block of RFC 9637. */
const NEVER_PUBLIC: [Address, number][] = [ipaddr.parseCIDR("168.63.129.16/32"), ipaddr.parseCIDR("3fff::/20")];

/** Ports from 1024 up that browsers refuse too (Fetch standard, "bad port"): other protocols that can be talked into. */
const OTHER_PROTOCOLS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10080, 11211,
]);

/**
 * Parses the entries of PURSER_EGRESS_ALLOW.
 * Throws an Error whose message says which entry is wrong and what is accepted.
 */
export function parseEgressAllow(entries: readonly string[]): EgressAllowance {
  const hosts = new Set<string>();
  const networks: [Address, number][] = [];
  for (const entry of entries) {
    if (ipaddr.isValidCIDR(entry)) networks.push(ipaddr.parseCIDR(entry));
    else hosts.add(hostAndPort(entry));
  }
  return { hosts, networks };
}

function hostAndPort(entry: string): string {
  const port = /:(\d{1,5})$/.exec(entry)?.[1];
  const url = port === undefined ? null : URL.parse(`http://${entry}/`);
  // URL takes a star for a letter; nothing here is a pattern.
  const isPlain =
    url !== null && /^[^*]+$/.test(url.hostname) && url.pathname === "/" && url.search + url.username === "";
  if (!isPlain || Number(port) < 1) {
    throw new Error(`${JSON.stringify(entry)} is neither host:port nor a CIDR such as 10.0.0.0/8`);
  }
  return `${bareHost(url.hostname)}:${Number(port)}`;
}

/** A host name as compared: lower case (URL does that) and without the root dot, so that `a.` is `a`. */
function bareHost(hostname: string): string {
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname;
}

/** The port a URL dials. */
export function portOf(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}

/** Whether the operator named this very host and port. */
export function isHostAllowed(url: URL, allowance: EgressAllowance): boolean {
  return allowance.hosts.has(`${bareHost(url.hostname)}:${portOf(url)}`);
}

/** Whether `hostname` is one that the operator named, on whatever port, or, beside networks of theirs, a bare name within these. */
export function isNamed(hostname: string, { hosts, networks }: EgressAllowance): boolean {
  if (networks.length > 0 && !hostname.includes(".")) return true;
  return [...hosts].some((host) => host.replace(/:\d+$/, "") === bareHost(hostname));
}

/** Whether a tool may use `port` at all: 80, 443, and from 1024 up what no other well-known protocol speaks. */
export function isPortOpen(port: number): boolean {
  return port === 80 || port === 443 || (port >= 1024 && !OTHER_PROTOCOLS.has(port));
}

/** Whether `address` (as a resolver answered it) may be dialled: public unicast, or inside an allowed network. */
export function isAddressOpen(address: string, allowance: EgressAllowance): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  return isPublic(parsed) || allowance.networks.some((network) => isWithin(parsed, network));
}

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast" || NEVER_PUBLIC.some((network) => isWithin(address, network))) return false;
  return address.kind() === "ipv4" || address.match(GLOBAL_UNICAST_V6);
}

/** An IPv4-mapped address counts as the IPv4 address it dials, so that allowing 10.0.0.0/8 allows ::ffff:10.0.0.1. */
function isWithin(address: Address, [network, bits]: readonly [Address, number]): boolean {
  const dialled = ipaddr.process(address.toString());
  return dialled.kind() === network.kind() && dialled.match([network, bits] as [ipaddr.IPv4, number]);
}
