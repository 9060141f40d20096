import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Decides which addresses and ports the service may dial for a user. Pure: no network access.
 *
 * An allow-list: ipaddr.js must classify the address as public unicast. Every other range (private, loopback,
 * link-local, carrier-grade NAT, multicast, reserved, IPv4-mapped, NAT64, 6to4, Teredo, …) is blocked, ranges that we
 * did not think of included.
 */

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The parsed PURSER_EGRESS_ALLOW: destinations that are allowed although they are not public. */
export interface EgressAllowance {
  /**
   * `host:port` in lower case, IPv6 hosts in brackets. Allows every address that the name resolves to, on that port.
   */
  readonly hosts: ReadonlySet<string>;
  /** Networks. Allows any host within them, on any permitted port. */
  readonly networks: readonly (readonly [Address, number])[];
}

/**
 * IANA assigns global unicast IPv6 addresses from this block only (RFC 4291). Other IPv6 addresses are not on the
 * internet.
 */
const GLOBAL_UNICAST_V6: [ipaddr.IPv6, number] = ipaddr.IPv6.parseCIDR("2000::/3");

/** In a public range, but not on the internet: Azure's host agent, and the documentation block of RFC 9637. */
const NEVER_PUBLIC: [Address, number][] = [ipaddr.parseCIDR("168.63.129.16/32"), ipaddr.parseCIDR("3fff::/20")];

/**
 * Ports from 1024 up that browsers block too (Fetch standard, "bad port"). Servers of other protocols there may act on
 * an HTTP request.
 */
const OTHER_PROTOCOLS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10080, 11211,
]);

/**
 * Parses the entries of PURSER_EGRESS_ALLOW.
 * Throws an Error that names the wrong entry and the accepted forms.
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
  // URL accepts `*` as a letter of a host name. Entries are not patterns, so `*` is rejected.
  const isPlain =
    url !== null && /^[^*]+$/.test(url.hostname) && url.pathname === "/" && url.search + url.username === "";
  if (!isPlain || Number(port) < 1) {
    throw new Error(`${JSON.stringify(entry)} is neither host:port nor a CIDR such as 10.0.0.0/8`);
  }
  return `${bareHost(url.hostname)}:${Number(port)}`;
}

/**
 * Normalizes a host name for comparison: removes the root dot, so that `a.` equals `a`. URL has already lower-cased it.
 */
function bareHost(hostname: string): string {
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname;
}

/** The port that a request to `url` dials. */
export function readPort(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}

/** Whether the operator allowed exactly this host and port. */
export function isHostAllowed(url: URL, allowance: EgressAllowance): boolean {
  return allowance.hosts.has(`${bareHost(url.hostname)}:${readPort(url)}`);
}

/**
 * Whether the operator named `hostname`, on any port. If the operator allowed networks, every name without a dot counts
 * too.
 */
export function isNamed(hostname: string, { hosts, networks }: EgressAllowance): boolean {
  if (networks.length > 0 && !hostname.includes(".")) return true;
  return [...hosts].some((host) => host.replace(/:\d+$/, "") === bareHost(hostname));
}

/** Whether a tool may use `port`: 80, 443, or a port from 1024 up that no other well-known protocol uses. */
export function isPortOpen(port: number): boolean {
  return port === 80 || port === 443 || (port >= 1024 && !OTHER_PROTOCOLS.has(port));
}

/** Whether `address` (as a resolver returned it) may be dialled: public unicast, or inside an allowed network. */
export function isAddressOpen(address: string, allowance: EgressAllowance): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  return isPublic(parsed) || allowance.networks.some((network) => isWithin(parsed, network));
}

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast" || NEVER_PUBLIC.some((network) => isWithin(address, network))) return false;
  return address.kind() === "ipv4" || address.match(GLOBAL_UNICAST_V6);
}

/** Treats an IPv4-mapped address as the IPv4 address that it dials. So 10.0.0.0/8 also allows ::ffff:10.0.0.1. */
function isWithin(address: Address, [network, bits]: readonly [Address, number]): boolean {
  const dialled = ipaddr.process(address.toString());
  return dialled.kind() === network.kind() && dialled.match([network, bits] as [ipaddr.IPv4, number]);
}

/** True if `host` is this machine. A URL has an IPv6 address in brackets. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}
