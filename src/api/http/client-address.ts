import ipaddr from "ipaddr.js";
import { isLoopback } from "../../platform/net/address.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The part of an IPv6 address that a subscriber owns: they can call from any address in it. */
const SUBSCRIBER_PARTS = 4;

function trustIn(trusted_cidrs: readonly string[]): (address: Address) => boolean {
  const trusted = trusted_cidrs.map((cidr) => ipaddr.parseCIDR(cidr));
  return (address) =>
    trusted.some(([network, bits]) => address.kind() === network.kind() && address.match([network, bits] as never));
}

/** The address of a connection, by which connections count; null for a trusted proxy, which has those of all its clients. */
export function createPeerAddress(trusted_cidrs: readonly string[]): (peer: string) => string | null {
  const isTrusted = trustIn(trusted_cidrs);
  return (peer) => (ipaddr.isValid(peer) && isTrusted(ipaddr.process(peer)) ? null : subscriberOf(peer));
}

/** Returns the network address of the caller: the peer, or the client that `trusted` proxies name. */
export function createClientAddress(trusted_cidrs: readonly string[]): (exchange: Exchange) => string {
  const isTrusted = trustIn(trusted_cidrs);
  return ({ incoming, header }) => {
    const forwarded = (header("x-forwarded-for") ?? "").split(",").map((part) => part.trim());
    // From the right: each entry was written by the next proxy, and counts only if that proxy is trusted.
    let named = incoming.socket.remoteAddress ?? "";
    while (ipaddr.isValid(named) && isTrusted(ipaddr.process(named))) {
      const before = forwarded.pop();
      if (before === undefined || !ipaddr.isValid(before)) break;
      named = before;
    }
    return subscriberOf(named);
  };
}

function subscriberOf(named: string): string {
  if (!ipaddr.isValid(named)) return named;
  const address = ipaddr.process(named);
  if (address.kind() === "ipv4") return address.toString();
  return (address as ipaddr.IPv6).parts.slice(0, SUBSCRIBER_PARTS).join(":");
}

/** Headers that proxies add. A client on this machine sends none of them. */
const PROXY_HEADERS = ["forwarded", "via", "x-real-ip"];
const PROXY_PREFIX = "x-forwarded-";

/**
 * Rejects writes that came through a proxy, with 403. Without a configured proxy the service takes every request for
 * one of this machine, also one that a proxy on this machine forwards from the internet.
 */
export function rejectForwardedWrite(exchange: Exchange): void {
  const writes = exchange.method !== "GET" && exchange.method !== "HEAD";
  if (writes && (isForwarded(exchange) || !isLoopback(hostOf(exchange)))) throw httpErrors.proxyNotConfigured();
}

function isForwarded({ incoming: { headers } }: Exchange): boolean {
  return Object.keys(headers).some((name) => PROXY_HEADERS.includes(name) || name.startsWith(PROXY_PREFIX));
}

/** The host name that the client asked for, without its port. */
function hostOf({ header }: Exchange): string {
  return URL.parse(`http://${header("host") ?? ""}`)?.hostname ?? "";
}
