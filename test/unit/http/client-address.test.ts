import { describe, expect, it } from "vitest";
import { createClientAddress, createPeerAddress } from "../../../src/api/http/client-address.ts";
import type { Exchange } from "../../../src/api/http/exchange.ts";

const requestFrom = (peer: string, forwarded?: string) =>
  ({
    incoming: { socket: { remoteAddress: peer } },
    header: () => forwarded,
  }) as unknown as Exchange;

describe("the address by which limits count", () => {
  it.each([
    ["no proxy: the peer, whatever its headers say", [], "203.0.113.9", "192.0.2.1", "203.0.113.9"],
    ["an untrusted peer is not believed", ["10.0.0.0/8"], "203.0.113.9", "192.0.2.1", "203.0.113.9"],
    ["a trusted proxy is believed", ["10.0.0.0/8"], "10.0.0.1", "192.0.2.1", "192.0.2.1"],
    [
      "an address before the client's own was added by the client",
      ["10.0.0.0/8"],
      "10.0.0.1",
      "1.1.1.1, 192.0.2.1",
      "192.0.2.1",
    ],
    ["a chain of proxies", ["10.0.0.0/8"], "10.0.0.1", "1.1.1.1, 192.0.2.1, 10.9.9.9", "192.0.2.1"],
    ["a proxy that forwards nothing counts itself", ["10.0.0.0/8"], "10.0.0.1", undefined, "10.0.0.1"],
    ["nonsense is not an address", ["10.0.0.0/8"], "10.0.0.1", "unknown", "10.0.0.1"],
    ["IPv4 in IPv6 is IPv4", ["10.0.0.0/8"], "::ffff:10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"],
    ["IPv6 counts by its network of 64 bits", [], "2001:db8:1:2:aaaa::1", undefined, "8193:3512:1:2"],
  ])("%s", (_, trusted, peer, forwarded, expected) => {
    expect(createClientAddress(trusted)(requestFrom(peer, forwarded))).toBe(expected);
  });
});

describe("the address by which connections count", () => {
  it.each([
    ["a peer", [], "203.0.113.9", "203.0.113.9"],
    ["IPv4 in IPv6", [], "::ffff:203.0.113.9", "203.0.113.9"],
    ["IPv6, by its network of 64 bits", [], "2001:db8:1:2:aaaa::1", "8193:3512:1:2"],
    ["a trusted proxy, which has those of many callers", ["10.0.0.0/8"], "10.0.0.1", null],
    ["a trusted proxy as IPv4 in IPv6", ["10.0.0.0/8"], "::ffff:10.0.0.1", null],
    ["a peer beside the proxies", ["10.0.0.0/8"], "11.0.0.1", "11.0.0.1"],
    ["a connection that has ended already", ["10.0.0.0/8"], "", ""],
  ])("%s", (_, trusted, peer, expected) => {
    expect(createPeerAddress(trusted)(peer)).toBe(expected);
  });
});
